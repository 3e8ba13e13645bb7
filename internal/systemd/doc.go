// Package systemd is how a service and its manager talk: what state the service is in, the
// sockets that it is given, those that are kept for it while it is started anew, and the
// watchdog. systemd(1) calls them sd_notify, socket activation, the file descriptor store and
// WatchdogSec=.
//
// internal/daemon calls it. It starts no goroutine, and does nothing where nobody manages.
package systemd
