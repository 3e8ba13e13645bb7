// Package daemon implements lnetd. From a configuration, it starts a node, its drivers, the
// control interface and the metrics listener, and stops them in the opposite order.
//
// cmd/lnetd calls New and Run. Run starts one goroutine per Task and one that watches the node
// for systemd. It returns after the last of them has ended, or after a time limit if one of them
// hangs.
package daemon
