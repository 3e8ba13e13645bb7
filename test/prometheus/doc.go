// Package prometheus holds tests of what lnetd gives to Prometheus: rules, alerts, their
// pages and the dashboard, judged by promtool; and a real Prometheus that scrapes two
// lnetd, in network namespaces of their own, while they work and while a link is cut. They
// need Debian's package prometheus, the latter also root and iproute2. There are no
// goroutines of its own.
package prometheus
