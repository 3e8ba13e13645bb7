package service

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/daemontest"
	"github.com/lnetd/lnetd/internal/testing/nspawn"
)

// patience is the time limit for what systemd or lnetd does automatically.
const patience = time.Minute

// machine is a booted machine with lnetd.
type machine struct{ *nspawn.Machine }

// boot creates a machine, installs lnetd there, and boots it.
func boot(t *testing.T) *machine {
	t.Helper()
	m := &machine{nspawn.Copy(t)}
	m.install(t)
	m.Boot(t)
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := m.Try(t, "journalctl --no-pager -o short-monotonic -u 'lnetd*' | tail -n 200")
			t.Logf("journal:\n%s", out)
		}
	})
	return m
}

// install adds the files of an administrator to the machine.
func (m *machine) install(t *testing.T) {
	t.Helper()
	build := exec.Command("go", "build", "-buildvcs=false", "-o", m.Path("usr/bin")+"/",
		"github.com/lnetd/lnetd/cmd/...", "github.com/lnetd/lnetd/test/service/wedged")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	const from = "../../deploy/systemd"
	units, err := filepath.Glob(from + "/lnetd*")
	if err != nil || len(units) < 5 {
		t.Fatalf("units %q, %v", units, err)
	}
	for _, u := range units {
		m.copyIn(t, u, "usr/lib/systemd/system/"+filepath.Base(u))
	}
	// Tests start lnetd more often than the start limit permits.
	for _, unit := range []string{"lnetd.service", "lnetd@.service"} {
		m.Write(t, "etc/systemd/system/"+unit+".d/limit.conf", "[Unit]\nStartLimitIntervalSec=0\n")
	}
	m.copyIn(t, from+"/sysusers/lnetd.conf", "usr/lib/sysusers.d/lnetd.conf")
	m.copyIn(t, from+"/tmpfiles/lnetd.conf", "usr/lib/tmpfiles.d/lnetd.conf")
}

func (m *machine) copyIn(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	m.Write(t, to, string(b))
}

// sh runs a script that must succeed, and returns its output without the trailing newline.
func (m *machine) sh(t *testing.T, script string) string {
	t.Helper()
	return strings.TrimSuffix(m.Must(t, script), "\n")
}

// property returns a property of a unit.
func (m *machine) property(t *testing.T, unit, name string) string {
	t.Helper()
	return m.sh(t, fmt.Sprintf("systemctl show --property=%s --value %s", name, unit))
}

// await waits until a property of a unit has the expected value.
func (m *machine) await(t *testing.T, unit, name string, is func(string) bool) (got string) {
	t.Helper()
	daemontest.Within(t, patience, unit+" "+name, func() error {
		if got = m.property(t, unit, name); is(got) {
			return nil
		}
		return fmt.Errorf("it is %q", got)
	})
	return got
}

func equal(want string) func(string) bool { return func(s string) bool { return s == want } }

func with(part string) func(string) bool {
	return func(s string) bool { return strings.Contains(s, part) }
}

// pid returns the main process of a unit, as a process ID of the host.
func (m *machine) pid(t *testing.T, unit string) string {
	t.Helper()
	pid := m.property(t, unit, "MainPID")
	if pid == "0" {
		t.Fatalf("%s does not run: %s", unit, m.property(t, unit, "ActiveState"))
	}
	return pid
}

// logged waits until the journal contains a text.
func (m *machine) logged(t *testing.T, of string, words ...string) {
	t.Helper()
	daemontest.Within(t, patience, "the journal", func() error {
		out := m.sh(t, "journalctl --no-pager --output=cat "+of)
		for _, word := range words {
			if !strings.Contains(out, word) {
				return fmt.Errorf("no %q in %s", word, out)
			}
		}
		return nil
	})
}

// drop writes a drop-in of a unit until the end of the test.
func (m *machine) drop(t *testing.T, unit, text string) {
	t.Helper()
	path := "etc/systemd/system/" + unit + ".d/test.conf"
	m.Write(t, path, text)
	m.sh(t, "systemctl daemon-reload")
	t.Cleanup(func() {
		if err := os.Remove(m.Path(path)); err != nil {
			t.Error(err)
		}
		m.sh(t, "systemctl daemon-reload")
	})
}

// fresh stops all of lnetd's units, and resets their failed state.
func (m *machine) fresh(t *testing.T) {
	t.Helper()
	m.sh(t, "systemctl stop lnetd-control.socket lnetd-clients.socket lnetd-metrics.socket lnetd.service; systemctl reset-failed")
}
