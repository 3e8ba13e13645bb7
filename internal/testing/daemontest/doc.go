// Package daemontest is for tests that run lnetd. It starts and stops lnetd, receives its notifications
// to systemd to detect that it is ready, and captures its log. It also provides commands for test
// scripts.
package daemontest
