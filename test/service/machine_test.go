package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/daemon/daemontest"
	"github.com/lnetd/lnetd/internal/testenv"
)

const (
	bootPatience    = 3 * time.Minute
	commandPatience = 2 * time.Minute
	// patience bounds the wait for what systemd or lnetd does by itself.
	patience = time.Minute
)

// machine is a container with a systemd of its own.
type machine struct {
	root   string // its files, but for /run and other file systems
	leader int    // its first process, as we number it
}

// boot copies the root file system, installs lnetd there, and boots it.
func boot(t *testing.T) *machine {
	t.Helper()
	base := testenv.Machine(t)
	testenv.NeedRoot(t)
	testenv.NeedCommand(t, "systemd-nspawn", "systemd-container")
	testenv.NeedCommand(t, "nsenter", "util-linux")
	m := &machine{root: filepath.Join(t.TempDir(), "root")}
	if out, err := exec.Command("cp", "-a", base, m.root).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v\n%s", err, out)
	}
	m.install(t)

	console := &daemontest.Log{}
	cmd := exec.Command("systemd-nspawn", "--quiet", "--boot", "--register=no", "--keep-unit", "--private-network",
		"--console=pipe", "--machine=lnetd-test-"+strconv.Itoa(os.Getpid()), "--directory="+m.root)
	cmd.Stdout, cmd.Stderr = console, console
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := m.try(t, "journalctl --no-pager -o short-monotonic -u 'lnetd*' | tail -n 200")
			t.Logf("journal:\n%s", out)
		}
		_ = cmd.Process.Signal(syscall.SIGTERM) // which has the machine halt
		select {
		case <-ended:
		case <-time.After(patience):
			_ = cmd.Process.Kill()
			<-ended
		}
	})
	daemontest.Within(t, bootPatience, "boot", func() (err error) {
		select {
		case <-ended:
			t.Fatalf("the machine has ended:\n%s", console)
		default:
		}
		if m.leader == 0 {
			if m.leader, err = firstChild(cmd.Process.Pid); err != nil {
				return err
			}
		}
		out, err := m.try(t, "systemctl is-system-running")
		if s := strings.TrimSpace(out); s == "running" || s == "degraded" {
			return nil
		}
		return fmt.Errorf("%w: %s", err, out)
	})
	return m
}

// firstChild is the process that nspawn has booted.
func firstChild(pid int) (int, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return 0, err
	}
	children := strings.Fields(string(b))
	if len(children) == 0 {
		return 0, errors.New("no child yet")
	}
	child, err := strconv.Atoi(children[0])
	if err != nil {
		return 0, err
	}
	if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", child)); err != nil || strings.TrimSpace(string(name)) != "systemd" {
		return 0, fmt.Errorf("the child is %s, %w", name, err)
	}
	return child, nil
}

// install puts what an administrator would into the machine's files.
func (m *machine) install(t *testing.T) {
	t.Helper()
	build := exec.Command("go", "build", "-buildvcs=false", "-o", filepath.Join(m.root, "usr/bin")+"/",
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
	// Tests start lnetd more often than anybody would.
	for _, unit := range []string{"lnetd.service", "lnetd@.service"} {
		m.write(t, "etc/systemd/system/"+unit+".d/limit.conf", "[Unit]\nStartLimitIntervalSec=0\n")
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
	m.write(t, to, string(b))
}

// write makes a file of the machine's root file system.
func (m *machine) write(t *testing.T, path, text string) {
	t.Helper()
	at := filepath.Join(m.root, path)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// try has the machine's shell run a script, and returns what that says.
func (m *machine) try(t *testing.T, script string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), commandPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nsenter", "--target", strconv.Itoa(m.leader), "--all", "--",
		"/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "TERM=dumb", "/bin/bash", "-c", script)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// sh is try of what has to succeed; its trailing newline is cut.
func (m *machine) sh(t *testing.T, script string) string {
	t.Helper()
	out, err := m.try(t, script)
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return strings.TrimSuffix(out, "\n")
}

// property is what systemd knows of a unit.
func (m *machine) property(t *testing.T, unit, name string) string {
	t.Helper()
	return m.sh(t, fmt.Sprintf("systemctl show --property=%s --value %s", name, unit))
}

// await waits until systemd says something of a unit.
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

// pid is the main process of a unit, as we number it.
func (m *machine) pid(t *testing.T, unit string) string {
	t.Helper()
	pid := m.property(t, unit, "MainPID")
	if pid == "0" {
		t.Fatalf("%s does not run: %s", unit, m.property(t, unit, "ActiveState"))
	}
	return pid
}

// logged waits until the journal has some words.
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
	m.write(t, path, text)
	m.sh(t, "systemctl daemon-reload")
	t.Cleanup(func() {
		if err := os.Remove(filepath.Join(m.root, path)); err != nil {
			t.Error(err)
		}
		m.sh(t, "systemctl daemon-reload")
	})
}

// fresh stops all of lnetd's units, and forgets that they have failed.
func (m *machine) fresh(t *testing.T) {
	t.Helper()
	m.sh(t, "systemctl stop lnetd-control.socket lnetd-clients.socket lnetd-metrics.socket lnetd.service; systemctl reset-failed")
}
