package systemd

import (
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"
)

// Config describes the service manager of this process, normally systemd.
type Config struct {
	// Send sends a message and files to the manager. It is nil if no manager has started this process.
	Send func(message string, files []*os.File) error
	// Files are the files that the manager has passed to this process. Their names are those that the
	// manager has given them.
	Files []*os.File
	// Keeps reports whether the manager has a file descriptor store for this service.
	Keeps bool
	// Watchdog is the time without a call of Alive after which the manager kills the service; 0
	// means never.
	Watchdog time.Duration
	// Logger receives errors. A nil Logger discards them.
	Logger *slog.Logger
}

// Manager is a connection to the service manager of this process. Without a manager, its methods do
// nothing. They are safe for concurrent use. If the manager is busy, they block for at most some seconds.
type Manager struct {
	config Config

	mu       sync.Mutex // guards the fields below, and the order of messages
	phase    phase
	reloads  int                   // number of reloads in progress
	status   string                // the status that was sent last
	deaf     bool                  // the last message could not be delivered, which has been logged
	received map[string][]*os.File // files that were passed and not requested yet, by name
}

// phase is the phase of the service.
type phase int

const (
	starting phase = iota
	running
	ending
)

// FromEnvironment returns the manager that the environment variables of this process describe. It takes the
// passed files over, so only the Manager of the first call has them.
func FromEnvironment(log *slog.Logger) *Manager {
	c := Config{Files: activation.Files(true), Keeps: storeIsThere(os.Getenv, os.Getpid()), Logger: log}
	if path := os.Getenv("NOTIFY_SOCKET"); path != "" {
		c.Send = sender(path)
	}
	m := New(c)
	var err error
	if m.config.Watchdog, err = daemon.SdWatchdogEnabled(false); err != nil {
		m.config.Logger.Warn("WATCHDOG_USEC is invalid; the watchdog of systemd is not notified", "err", err)
	}
	return m
}

// storeIsThere reports whether the manager has a file descriptor store for this service. Since version 254,
// systemd says so in an environment variable. For older versions, storeIsThere assumes that there is a store if
// systemd has started this process itself. If that is wrong, requests have no effect.
func storeIsThere(env func(string) string, pid int) bool {
	if s := env("FDSTORE"); s != "" {
		n, err := strconv.Atoi(s)
		return err == nil && n > 0
	}
	return env("SYSTEMD_EXEC_PID") == strconv.Itoa(pid)
}

// New returns a Manager for the service manager that c describes.
func New(c Config) *Manager {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	m := &Manager{config: c, received: map[string][]*os.File{}}
	for _, f := range c.Files {
		m.received[f.Name()] = append(m.received[f.Name()], f)
	}
	return m
}

// Present reports whether this process has a service manager.
func (m *Manager) Present() bool { return m.config.Send != nil }

// Watchdog returns the interval of the watchdog: the manager kills the service if Alive is not called for so
// long. It returns 0 if there is no watchdog.
func (m *Manager) Watchdog() time.Duration {
	if !m.Present() {
		return 0
	}
	return m.config.Watchdog
}

// statusMax is the maximum length of a status line in bytes. systemd reads 4096 bytes of a message.
const statusMax = 2000

// Status sends a status of one line to the manager, which shows it to operators. It sends nothing if the status
// has not changed, or after Stopping was called.
func (m *Manager) Status(line string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tellStatus(line)
}

// tellStatus does what Status does. The caller holds m.mu.
func (m *Manager) tellStatus(line string) {
	if m.phase != ending {
		m.tell(nil, line)
	}
}

// Starting reports that the service is still starting, and asks the manager to wait for the time patience from
// now, if the timeout of the unit ends before.
func (m *Manager) Starting(patience time.Duration, status string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.phase == starting {
		m.tell([]string{extend(patience)}, status)
	}
}

// Ready reports that the service has started, with a status. Later calls have no effect.
func (m *Manager) Ready(status string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.phase != starting {
		return
	}
	m.phase = running
	m.tell([]string{daemon.SdNotifyReady}, status)
}

// Reloading reports that the service has begun to reload its configuration. The caller must call Reloaded at
// the end of the reload. While the service is starting or stopping, Reloading sends only the status.
func (m *Manager) Reloading(status string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reloads++; m.phase != running || m.reloads > 1 {
		m.tellStatus(status)
		return
	}
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // cannot fail
	m.tell([]string{daemon.SdNotifyReloading, fmt.Sprintf("MONOTONIC_USEC=%d", now.Nano()/1000)}, status)
}

// Reloaded reports that a reload has ended, whether it succeeded or not.
func (m *Manager) Reloaded(status string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reloads--; m.phase != running || m.reloads > 0 {
		m.tellStatus(status)
		return
	}
	m.tell([]string{daemon.SdNotifyReady}, status)
}

// Stopping reports that the service is stopping, and asks the manager to wait for the time patience.
func (m *Manager) Stopping(patience time.Duration, status string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.phase == ending {
		return
	}
	m.phase = ending
	m.tell([]string{daemon.SdNotifyStopping, extend(patience)}, status)
}

// extend returns the line of a message that asks the manager to wait for the duration d until the start or stop
// has ended.
func extend(d time.Duration) string { return fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", d.Microseconds()) }

// Alive resets the watchdog, so that the manager waits for another interval before it kills the service.
func (m *Manager) Alive() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.send(daemon.SdNotifyWatchdog, nil)
}

// tell sends a message that consists of lines, and of the status if it has changed. The caller holds m.mu.
func (m *Manager) tell(lines []string, status string) {
	if status = oneLine(status); status != "" && status != m.status {
		m.status = status
		lines = append(lines, "STATUS="+status)
	}
	if len(lines) > 0 && !m.send(strings.Join(lines, "\n"), nil) {
		m.status = "" // so that the status is sent again with the next message
	}
}

// oneLine returns s as one line of at most about statusMax bytes.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "?")), " ")
	if len(s) > statusMax {
		s = strings.ToValidUTF8(s[:statusMax], "") + "..."
	}
	return s
}

// send sends a message and reports whether it was delivered. The caller holds m.mu.
func (m *Manager) send(message string, files []*os.File) bool {
	if !m.Present() {
		return false
	}
	err := m.config.Send(message, files)
	if err != nil && !m.deaf { // otherwise each watchdog message would log a line
		m.config.Logger.Warn("cannot notify systemd", "message", message, "err", err)
	}
	m.deaf = err != nil
	return !m.deaf
}
