// Package latency is a histogram of durations on a fixed logarithmic scale: any
// number of goroutines record and look on, and histograms of many tests and nodes
// add up. Clients of tests keep a few per test, which LNet selftest does not
// have; consoles make percentiles of them. No goroutine, no clock.
package latency
