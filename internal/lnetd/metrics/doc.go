// Package metrics exports the counters of a node, its drivers and lnetd to Prometheus. It reads
// existing counters at scrape time and adds no cost per message: it holds no lock that the message
// path needs. A family is a metric name with its type and labels; docs/metrics.md lists all
// families. Each collect function adds the metrics of one subject to a page, which holds the
// metrics of one scrape. Process and Go runtime metrics come from a registry of the client library.
//
// internal/lnetd/daemon calls the package: Handler answers scrapes of a Source, and Serve runs the
// server. Its only goroutines are those of internal/lnetd/httpd, and Serve waits for them.
package metrics
