// Package systemd implements a service's side of the protocols between a service and systemd(1):
// status notification (sd_notify), socket activation, the file descriptor store, which keeps
// sockets open across a restart, and the watchdog (WatchdogSec=).
//
// internal/lnetd/daemon calls it. It starts no goroutine, and does nothing if there is no service
// manager.
package systemd
