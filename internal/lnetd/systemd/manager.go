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

// Config describes the service manager of this process.
type Config struct {
	// Send sends a message, with files, to the manager. It is nil if there is no manager.
	Send func(message string, files []*os.File) error
	// Files are the files that the manager has passed to this process, under its names for them.
	Files []*os.File
	// Keeps reports whether the manager has a file descriptor store.
	Keeps bool
	// Watchdog is the time without a call of Alive after which the manager kills the service; 0
	// means never.
	Watchdog time.Duration
	// Logger receives errors. A nil Logger discards them.
	Logger *slog.Logger
}

// Manager is a connection to the manager of this process, if any. Its methods are safe for
// concurrent use. If the manager is busy, they block for some seconds at most.
type Manager struct {
	config Config

	mu       sync.Mutex // guards the rest, and the order of messages
	phase    phase
	reloads  int    // active reloads
	status   string // the last one sent
	deaf     bool   // the last message was not delivered, which was logged
	received map[string][]*os.File
}

// phase is the phase of the service.
type phase int

const (
	starting phase = iota
	running
	ending
)

// FromEnvironment returns the manager described by the environment. It takes ownership of the files
// that were passed, so only the first call returns them.
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

// storeIsThere reports whether the manager has a descriptor store. systemd announces it since
// version 254. For older versions it is assumed if systemd has started this process itself; an
// unsupported request does no harm.
func storeIsThere(env func(string) string, pid int) bool {
	if s := env("FDSTORE"); s != "" {
		n, err := strconv.Atoi(s)
		return err == nil && n > 0
	}
	return env("SYSTEMD_EXEC_PID") == strconv.Itoa(pid)
}

// New returns a Manager for c.
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

// Present reports whether there is a manager.
func (m *Manager) Present() bool { return m.config.Send != nil }

// Watchdog returns the interval within which Alive must be called, or 0 if there is no watchdog.
func (m *Manager) Watchdog() time.Duration {
	if !m.Present() {
		return 0
	}
	return m.config.Watchdog
}

// statusMax is the maximum length of a status line in bytes. systemd reads 4096 bytes of a message.
const statusMax = 2000

// Status reports a one-line status. It sends nothing if the status has not changed, or after
// Stopping.
func (m *Manager) Status(line string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tellStatus(line)
}

// tellStatus sends the status unless the service is stopping. The caller holds m.mu.
func (m *Manager) tellStatus(line string) {
	if m.phase != ending {
		m.tell(nil, line)
	}
}

// Starting reports how long the start may still take, if the unit's timeout is shorter.
func (m *Manager) Starting(patience time.Duration, status string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.phase == starting {
		m.tell([]string{extend(patience)}, status)
	}
}

// Ready reports that the service has started.
func (m *Manager) Ready(status string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.phase != starting {
		return
	}
	m.phase = running
	m.tell([]string{daemon.SdNotifyReady}, status)
}

// Reloading reports that the service reloads its configuration. Reloaded ends the reload. While the
// service is starting or stopping, only the status is sent.
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

// Reloaded ends a reload, whether it succeeded or not.
func (m *Manager) Reloaded(status string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reloads--; m.phase != running || m.reloads > 0 {
		m.tellStatus(status)
		return
	}
	m.tell([]string{daemon.SdNotifyReady}, status)
}

// Stopping reports that the service is stopping, and how long that may take.
func (m *Manager) Stopping(patience time.Duration, status string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.phase == ending {
		return
	}
	m.phase = ending
	m.tell([]string{daemon.SdNotifyStopping, extend(patience)}, status)
}

// extend returns the message that extends the manager's timeout of a start or a stop.
func extend(d time.Duration) string { return fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", d.Microseconds()) }

// Alive resets the watchdog.
func (m *Manager) Alive() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.send(daemon.SdNotifyWatchdog, nil)
}

// tell sends lines, and the status if it has changed. The caller holds m.mu.
func (m *Manager) tell(lines []string, status string) {
	if status = oneLine(status); status != "" && status != m.status {
		m.status = status
		lines = append(lines, "STATUS="+status)
	}
	if len(lines) > 0 && !m.send(strings.Join(lines, "\n"), nil) {
		m.status = "" // send it again next time
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
