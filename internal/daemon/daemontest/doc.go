// Package daemontest helps tests that run lnetd as a process: it hears what
// lnetd tells systemd, so that nobody has to guess when lnetd is ready, and
// holds the commands that test scripts use.
package daemontest
