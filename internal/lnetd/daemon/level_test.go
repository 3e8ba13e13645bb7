package daemon

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/testing/daemontest"
)

// Given a running daemon, when the level of its log is set, then it applies at once, and the log
// reports it whatever the levels are. A reload restores the configured level.
func TestSetLogLevel(t *testing.T) {
	level := &slog.LevelVar{}
	c := parse(t, "lnetd: {log_level: warn, log_format: json}")
	c.ControlSocket = t.TempDir() + "/c.sock"
	level.Set(c.LogLevel)
	log := &daemontest.Log{}
	r := runDaemon(t, c, Drivers{TCP(host(lo, device("eth0", "10.77.0.11/24")))}, func(d *Daemon) {
		d.SetLevel(level)
		d.log = NewLogger(log, level, config.FormatJSON)
	})
	ctl := r.ready(t)
	shows := func(want api.Log) {
		t.Helper()
		got, err := ctl.Log(t.Context())
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Error(err, diff)
		}
	}
	set := func(text string) {
		t.Helper()
		if err := ctl.SetLog(t.Context(), api.LogChange{Level: text}); err != nil {
			t.Error(err)
		}
	}
	reload := func(text string) {
		t.Helper()
		r.Reload(t.Context(), func() (config.Config, error) {
			c := parse(t, text)
			c.ControlSocket = r.socket
			return c, nil
		})
		<-r.states
		<-r.states
	}
	shows(api.Log{Level: "warn", Configured: "warn", Format: "json"})
	set("error")
	set("ERROR")
	shows(api.Log{Level: "error", Configured: "warn", Format: "json"})
	set("debug")
	shows(api.Log{Level: "debug", Configured: "warn", Format: "json"})
	if l := level.Level(); l != slog.LevelDebug {
		t.Errorf("%v", l)
	}
	if n := strings.Count(log.String(), "log level changed"); n != 2 {
		t.Errorf("%d lines: %s", n, log.String())
	}
	for _, bad := range []string{"", "warning", "info+2", "debug\n"} {
		err := ctl.SetLog(t.Context(), api.LogChange{Level: bad})
		if err == nil || !strings.Contains(err.Error(), "is not a log level") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	reload("lnetd: {log_level: warn, log_format: json}")
	shows(api.Log{Level: "warn", Configured: "warn", Format: "json"})
	set("info")
	reload("lnetd: {log_level: info, log_format: json}")
	shows(api.Log{Level: "info", Configured: "info", Format: "json"})
	r.stop(t)
}
