// Package prometheus tests what lnetd provides for Prometheus. promtool checks the rules, alerts, their
// pages and the dashboards. A real Prometheus scrapes two lnetd in separate network namespaces, in normal
// operation and while a link is cut. The tests need Debian's package prometheus. The latter also need
// root and iproute2. The package starts no goroutines.
package prometheus
