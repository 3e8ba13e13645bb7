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

// Config says who manages this process, and how.
type Config struct {
	// Send passes a message, with files, to the manager; nil: there is none.
	Send func(message string, files []*os.File) error
	// Files are those that the manager has passed to this process, under the names that it
	// has for them.
	Files []*os.File
	// Keeps says that the manager takes files into its store.
	Keeps bool
	// Watchdog is the time after which the manager ends a service that it has not heard
	// from; 0: never.
	Watchdog time.Duration
	// Logger is told what goes wrong; nil discards.
	Logger *slog.Logger
}

// Manager is the one who has started this process, or nobody. Its methods are safe for
// concurrent use, and wait for a manager that is busy for some seconds at most.
type Manager struct {
	config Config

	mu       sync.Mutex // guards the rest, and the order of messages
	phase    phase
	reloads  int    // that are under way
	status   string // as it was told last
	deaf     bool   // the last message did not arrive, which was logged
	received map[string][]*os.File
}

// phase is how far the service has come.
type phase int

const (
	starting phase = iota
	running
	ending
)

// FromEnvironment is who has started this process, as the environment has it. It takes the
// files that were passed: only the first call has them.
func FromEnvironment(log *slog.Logger) *Manager {
	c := Config{Files: activation.Files(true), Keeps: storeIsThere(os.Getenv, os.Getpid()), Logger: log}
	if path := os.Getenv("NOTIFY_SOCKET"); path != "" {
		c.Send = sender(path)
	}
	m := New(c)
	var err error
	if m.config.Watchdog, err = daemon.SdWatchdogEnabled(false); err != nil {
		m.config.Logger.Warn("the watchdog's time is not understood: it is not fed", "err", err)
	}
	return m
}

// storeIsThere tells whether the manager keeps files. systemd says so from 254 on; before, it
// is tried where systemd has started this process itself, which does no harm.
func storeIsThere(env func(string) string, pid int) bool {
	if s := env("FDSTORE"); s != "" {
		n, err := strconv.Atoi(s)
		return err == nil && n > 0
	}
	return env("SYSTEMD_EXEC_PID") == strconv.Itoa(pid)
}

// New returns the manager that c describes.
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

// Present tells whether there is anybody.
func (m *Manager) Present() bool { return m.config.Send != nil }

// Watchdog is the time within which Alive has to be called again and again; 0: it need not.
func (m *Manager) Watchdog() time.Duration {
	if !m.Present() {
		return 0
	}
	return m.config.Watchdog
}

// statusMax bounds a status line, in bytes: systemd reads 4096 of a message.
const statusMax = 2000

// Status says in one line what the service does. What was said already is not said again, and
// nothing once the end has begun.
func (m *Manager) Status(line string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tellStatus(line)
}

// tellStatus needs mu.
func (m *Manager) tellStatus(line string) {
	if m.phase != ending {
		m.tell(nil, line)
	}
}

// Starting says how long the start may take, where that is longer than the unit has it.
func (m *Manager) Starting(patience time.Duration, status string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.phase == starting {
		m.tell([]string{extend(patience)}, status)
	}
}

// Ready says that the service is up.
func (m *Manager) Ready(status string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.phase != starting {
		return
	}
	m.phase = running
	m.tell([]string{daemon.SdNotifyReady}, status)
}

// Reloading says that the service reads its configuration anew; Reloaded ends it. While the
// service is not up yet, or goes down, the manager is told nothing but the status: the end of
// a reload is said as that of a start.
func (m *Manager) Reloading(status string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reloads++; m.phase != running || m.reloads > 1 {
		m.tellStatus(status)
		return
	}
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // it cannot fail
	m.tell([]string{daemon.SdNotifyReloading, fmt.Sprintf("MONOTONIC_USEC=%d", now.Nano()/1000)}, status)
}

// Reloaded ends what Reloading has begun, well or not.
func (m *Manager) Reloaded(status string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reloads--; m.phase != running || m.reloads > 0 {
		m.tellStatus(status)
		return
	}
	m.tell([]string{daemon.SdNotifyReady}, status)
}

// Stopping says that the end begins, and how long it may take.
func (m *Manager) Stopping(patience time.Duration, status string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.phase == ending {
		return
	}
	m.phase = ending
	m.tell([]string{daemon.SdNotifyStopping, extend(patience)}, status)
}

// extend has the manager wait longer for the end of a start or a stop.
func extend(d time.Duration) string { return fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", d.Microseconds()) }

// Alive feeds the watchdog.
func (m *Manager) Alive() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.send(daemon.SdNotifyWatchdog, nil)
}

// tell sends lines and a status, if that is new. mu is held.
func (m *Manager) tell(lines []string, status string) {
	if status = oneLine(status); status != "" && status != m.status {
		m.status = status
		lines = append(lines, "STATUS="+status)
	}
	if len(lines) > 0 && !m.send(strings.Join(lines, "\n"), nil) {
		m.status = "" // to be told again
	}
}

// oneLine is a text without what ends lines, and not too long.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "?")), " ")
	if len(s) > statusMax {
		s = strings.ToValidUTF8(s[:statusMax], "") + "..."
	}
	return s
}

// send passes a message on, and tells whether that was possible. mu is held.
func (m *Manager) send(message string, files []*os.File) bool {
	if !m.Present() {
		return false
	}
	err := m.config.Send(message, files)
	if err != nil && !m.deaf { // else each meal of the watchdog would have a line
		m.config.Logger.Warn("systemd was not notified", "message", message, "err", err)
	}
	m.deaf = err != nil
	return !m.deaf
}
