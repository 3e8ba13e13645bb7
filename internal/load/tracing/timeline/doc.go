// Package timeline arranges the events of package tracing as the timelines of requests: what each thread of the
// processes of interest did, and which thread woke which. It writes a timeline as text and as an SVG picture. The package does no I/O
// except through the writer that it gets, reads no clock and starts no goroutines.
package timeline
