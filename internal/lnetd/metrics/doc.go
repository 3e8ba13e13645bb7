// Package metrics exports the counters of a node, its drivers and lnetd to Prometheus. It reads the
// counters when metrics are scraped, and costs nothing per message, because it holds no lock that is needed
// to send or receive messages. A family is a metric name with its type and labels; docs/metrics.md lists all
// families. Each function collect... adds the metrics of one subject to a page, which holds the metrics of
// one scrape. The metrics of the process and of the Go runtime come from a registry of the client library.
//
// internal/lnetd/daemon calls the package: Handler answers scrapes of a Source, and Serve runs the
// server. Its only goroutines are those of internal/lnetd/httpd, and Serve waits for them.
package metrics
