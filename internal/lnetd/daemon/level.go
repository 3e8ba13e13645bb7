package daemon

import (
	"log/slog"
	"os"
	"strings"
	"syscall"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// Log implements server.Backend.
func (b *backend) Log() api.Log { return b.daemon.logging() }

// SetLog implements server.Backend. It changes the log level until lnetd ends or reloads its configuration.
func (b *backend) SetLog(level string) error {
	l, err := config.ParseLevel(level)
	if err != nil {
		return err
	}
	d := b.daemon
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.level == nil {
		return syscall.EOPNOTSUPP
	}
	d.setLevel(l)
	d.loaded.LogLevel = l // so that a reload detects a difference
	return nil
}

func (d *Daemon) logging() api.Log {
	d.mu.Lock()
	defer d.mu.Unlock()
	return api.Log{
		Level: nameOf(d.loaded.LogLevel), Configured: nameOf(d.configured),
		Format: formatFor(os.Stderr, d.config.LogFormat).String(),
	}
}

// setLevel changes the log level and logs the change. The line appears with any two levels. The caller
// must hold mu.
func (d *Daemon) setLevel(to slog.Level) {
	from := d.level.Level()
	if to == from {
		return
	}
	d.level.Set(min(from, to, slog.LevelInfo)) // so that the next line is not suppressed
	d.log.Info("log level changed", "level", nameOf(to), "from", nameOf(from))
	d.level.Set(to)
}

func nameOf(l slog.Level) string { return strings.ToLower(l.String()) }
