// Package latency provides histograms of durations on a fixed logarithmic scale. Any number of goroutines
// may record and read. Histograms of several tests and nodes can be merged. Clients of tests keep a few
// recorders per test, and consoles compute percentiles from them; LNet selftest itself has no latencies.
// The package has no goroutines and does not use the clock.
package latency
