// Package daemon is lnetd: it composes a node, its drivers, the control
// interface and the metrics listener from a configuration, and takes them down
// again in the opposite order.
//
// cmd/lnetd calls New and Run. Run owns one goroutine per Task and one that
// watches the node for systemd, and ends after the last of them, or after a bound when one
// of them hangs.
package daemon
