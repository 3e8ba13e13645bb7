// Package daemontest helps tests that run lnetd: it hears what lnetd tells
// systemd, so that nobody has to guess when lnetd is ready, keeps its log, and
// holds the commands that test scripts use.
package daemontest
