// Package metrics shows the counters of a node and its drivers to Prometheus.
// It reads them when it is asked and costs a message nothing. Handler serves
// a registry of its own with the Go runtime's figures beside the node's.
//
// internal/daemon calls it. Its only goroutines are those of internal/httpd, which
// Serve waits for.
package metrics
