package packages

import (
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

// patience bounds the wait for a boot, for a command, and for an orderly end.
const patience = 3 * time.Minute

// Given a booted machine with the older version, of which the service runs, and one whose
// service nobody has started, when the package is upgraded, then what ran runs in the new
// version and what did not does not; when it is removed, nothing runs; after a purge there
// is no unit, no link and no socket.
func TestUpgradeWhileItRuns(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.install(t, older(t, debName(oldVersion)))
	b, err := os.ReadFile(deb(t))
	if err != nil {
		t.Fatal(err)
	}
	m.write(t, "/root/new.deb", string(b))
	s := m.boot(t)

	s.run(t, "dpkg --install /root/new.deb")
	if got := s.state(t); got != "inactive" {
		t.Errorf("the upgrade of what did not run has made it %s", got)
	}
	s.run(t, "dpkg --remove lnetd")
	m.install(t, older(t, debName(oldVersion)))
	s.run(t, "systemctl daemon-reload && systemctl enable --quiet --now lnetd-control.socket && systemctl enable --quiet --now lnetd.service")
	if got := s.run(t, "lnetd --version && lnetdctl net show | grep -c @tcp"); got != "lnetd v1.0.0-rc.1\n1\n" {
		t.Errorf("the older version: %s", got)
	}
	before := s.run(t, "systemctl show --property=MainPID --value lnetd.service")

	s.run(t, "dpkg --install /root/new.deb")
	if got := s.state(t); got != "active" {
		t.Errorf("after the upgrade it is %s", got)
	}
	after := s.run(t, "systemctl show --property=MainPID --value lnetd.service")
	if after == before || after == "0\n" {
		t.Errorf("the process was %s and is %s", before, after)
	}
	if got := s.run(t, "lnetd --version && readlink /proc/$(systemctl show --property=MainPID --value lnetd.service)/exe && lnetdctl net show | grep -c @tcp"); got != "lnetd v"+newVersion+"\n/usr/bin/lnetd\n1\n" {
		t.Errorf("after the upgrade: %s", got)
	}
	if got := s.run(t, "systemctl is-enabled lnetd.service lnetd-control.socket"); got != "enabled\nenabled\n" {
		t.Errorf("after the upgrade units are %s", got)
	}

	s.run(t, "dpkg --remove lnetd")
	if got := s.run(t, "ls -l /proc/[0-9]*/exe 2>/dev/null | grep /usr/bin/lnetd; systemctl list-units --all --plain --no-legend 'lnetd*' | grep -c ' active ' || true"); got != "0\n" {
		t.Errorf("after the removal there runs, and of units are active:\n%s", got)
	}
	s.run(t, "dpkg --purge lnetd")
	if got := s.run(t, "find /etc/systemd /run/lnetd /etc/lnetd -name '*lnetd*' 2>/dev/null; getent passwd lnetd; getent group lnetd; systemctl list-units --failed --plain --no-legend 'lnetd*'"); got != "" {
		t.Errorf("after the purge there is\n%s", got)
	}
}

// booted is a machine that runs, in a container of systemd-nspawn.
type booted struct{ leader int }

// boot boots the machine, until the end of the test.
func (m *machine) boot(t *testing.T) *booted {
	t.Helper()
	testenv.NeedCommand(t, "systemd-nspawn", "systemd-container")
	console := &daemontest.Log{}
	cmd := exec.Command("systemd-nspawn", "--quiet", "--boot", "--register=no", "--keep-unit", "--private-network",
		"--console=pipe", "--machine=lnetd-packages-"+strconv.Itoa(os.Getpid()), "--directory="+m.root)
	cmd.Stdout, cmd.Stderr = console, console
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // which has the machine halt
		select {
		case <-ended:
		case <-time.After(patience):
			_ = cmd.Process.Kill()
			<-ended
		}
	})
	s := &booted{}
	daemontest.Within(t, patience, "boot", func() (err error) {
		select {
		case <-ended:
			t.Fatalf("the machine has ended:\n%s", console)
		default:
		}
		if s.leader, err = leaderOf(cmd.Process.Pid); err != nil {
			return err
		}
		out, _ := s.try(t, "systemctl is-system-running")
		if out == "running\n" || out == "degraded\n" {
			return nil
		}
		return errors.New(out)
	})
	return s
}

// leaderOf is the first process of the machine that nspawn has booted.
func leaderOf(nspawn int) (int, error) {
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

// try has the machine's shell run a script.
func (s *booted) try(t *testing.T, script string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, "nsenter", "--target", strconv.Itoa(s.leader), "--all", "--", "/usr/bin/env", "-i",
		"PATH=/usr/sbin:/usr/bin", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive", "/bin/sh", "-c", script).CombinedOutput()
	return string(out), err
}

// run runs a script that has to succeed.
func (s *booted) run(t *testing.T, script string) string {
	t.Helper()
	out, err := s.try(t, script)
	if err != nil {
		log, _ := s.try(t, "journalctl --no-pager -n 60 -u 'lnetd*'")
		t.Fatalf("%s: %v\n%s\n%s", script, err, out, log)
	}
	return out
}

// state is the service's.
func (s *booted) state(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(s.run(t, "systemctl show --property=ActiveState --value lnetd.service"))
}
