// Package daemontest helps tests that run lnetd. It receives lnetd's notifications to systemd, so
// that tests need not guess when lnetd is ready. It also captures the log, and provides commands
// for test scripts.
package daemontest
