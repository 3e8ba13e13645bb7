// Package metrics shows the figures of a node, its drivers and lnetd to Prometheus. It
// reads counters that are kept anyway when it is asked, and costs a message nothing: no
// lock is held that messages need. A family is a name that metrics have (docs/metrics.md
// lists all); each collect function puts those of one subject on a page, which is what a
// scrape shows, beside the registry with the figures of the process and the Go runtime.
//
// internal/daemon calls it: Handler answers scrapes of a Source, Serve is the server
// around it. Its only goroutines are those of internal/httpd, which Serve waits for.
package metrics
