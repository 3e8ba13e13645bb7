package nspawn

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
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/daemontest"
	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// machineTimeout is the time limit for a boot, for a script, and for a shutdown before the machine is
// killed.
const machineTimeout = 3 * time.Minute

// booted gives the machines of this process different names.
var booted atomic.Int32

// Machine is a copy of the root file system. Boot boots it.
type Machine struct {
	// Root is the directory on the host that contains the machine's files. File systems that the booted
	// machine mounts, such as /run, are not visible in it.
	Root string

	leader int // process ID of the machine's first process on the host; 0 if the machine is not booted
}

// Copy returns a machine with a new copy of the root file system. It skips the test if
// LNETD_TEST_MACHINE is not set.
func Copy(t *testing.T) *Machine {
	t.Helper()
	base := testenv.Machine(t)
	testenv.NeedRoot(t)
	m := &Machine{Root: filepath.Join(t.TempDir(), "root")}
	if out, err := exec.Command("cp", "-a", base, m.Root).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v\n%s", err, out)
	}
	return m
}

// Path returns the path on the host of a file of the machine.
func (m *Machine) Path(name string) string { return filepath.Join(m.Root, name) }

// Write writes a file of the machine, and creates its parent directories.
func (m *Machine) Write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(m.Path(name)), 0o755); err != nil { //nolint:gosec // as an administrator would
		t.Fatal(err)
	}
	if err := os.WriteFile(m.Path(name), []byte(text), 0o644); err != nil { //nolint:gosec // as an administrator would
		t.Fatal(err)
	}
}

// Boot boots the machine and waits until systemd in it has started its units. At the end of the test the
// machine is shut down.
func (m *Machine) Boot(t *testing.T) {
	t.Helper()
	testenv.NeedCommand(t, "systemd-nspawn", "systemd-container")
	testenv.NeedCommand(t, "nsenter", "util-linux")
	console := &daemontest.Log{}
	cmd := exec.Command("systemd-nspawn", "--quiet", "--boot", "--register=no", "--keep-unit", "--private-network",
		"--console=pipe", fmt.Sprintf("--machine=lnetd-test-%d-%d", os.Getpid(), booted.Add(1)), "--directory="+m.Root)
	cmd.Stdout, cmd.Stderr = console, console
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // systemd-nspawn halts the machine
		select {
		case <-ended:
		case <-time.After(machineTimeout):
			_ = cmd.Process.Kill()
			<-ended
		}
	})
	daemontest.Within(t, machineTimeout, "boot", func() error {
		select {
		case <-ended:
			t.Fatalf("the machine has ended:\n%s", console)
		default:
		}
		return m.isUp(t, cmd.Process.Pid)
	})
}

// Leader returns the process ID, on the host, of the first process of the booted machine. Its namespaces are those
// of the machine.
func (m *Machine) Leader() int { return m.leader }

// isUp returns nil if the machine has finished booting, and an error before. nspawn is the process ID
// of systemd-nspawn.
func (m *Machine) isUp(t *testing.T, nspawn int) (err error) {
	if m.leader == 0 {
		if m.leader, err = firstChild(nspawn); err != nil {
			return err
		}
	}
	out, err := m.Try(t, "systemctl is-system-running")
	if s := strings.TrimSpace(out); s == "running" || s == "degraded" {
		return nil
	}
	return fmt.Errorf("it is %q (%w)", out, err)
}

// firstChild returns the process ID, on the host, of the systemd that systemd-nspawn with process ID
// nspawn has started.
func firstChild(nspawn int) (int, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", nspawn, nspawn))
	if err != nil {
		return 0, err
	}
	children := strings.Fields(string(b))
	if len(children) == 0 {
		return 0, errors.New("there is no machine yet")
	}
	name, err := os.ReadFile(filepath.Join("/proc", children[0], "comm"))
	if err != nil || string(name) != "systemd\n" {
		return 0, fmt.Errorf("the machine's first process is %q yet (%w)", name, err)
	}
	return strconv.Atoi(children[0])
}

// Try runs a script with bash in the booted machine, and returns its standard output and error. It also
// works in cleanup functions of the test.
func (m *Machine) Try(t *testing.T, script string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), machineTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nsenter", "--target", strconv.Itoa(m.leader), "--all", "--", "/usr/bin/env", "-i",
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "TERM=dumb", "DEBIAN_FRONTEND=noninteractive", "/bin/bash", "-c", script)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// Must does the same as Try, but if the script fails, it prints the end of lnetd's journal and ends the
// test.
func (m *Machine) Must(t *testing.T, script string) string {
	t.Helper()
	out, err := m.Try(t, script)
	if err != nil {
		log, _ := m.Try(t, "journalctl --no-pager -n 60 -u 'lnetd*'")
		t.Fatalf("%s: %v\n%s\n%s", script, err, out, log)
	}
	return out
}
