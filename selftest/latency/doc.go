// Package latency provides histograms of durations on a fixed logarithmic scale. Any number of goroutines may
// record and read. Histograms of several tests and nodes can be merged. LNet selftest itself does not measure
// latencies: here, client tests keep a few recorders each, and consoles compute percentiles from them. The
// package starts no goroutines and does not use the clock.
package latency
