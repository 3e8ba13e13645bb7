package packages

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/pages"
)

// Given two fresh Debian machines in one network and the package, when a newcomer follows README.md to the letter,
// then both machines have a node, and one pings the other. The log has the time that this took.
func TestNewcomer(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(sources, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	steps, err := pages.Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	installed := deb(t)
	var begin time.Time
	commands := 0
	pages.Test(t, steps, pages.Options{Machines: func(hosts []pages.Host) map[string]pages.Shell {
		shells := map[string]pages.Shell{}
		for name, m := range network(t, hosts) {
			copyPackage(t, m, installed)
			shells[name] = &machineShell{t: t, machine: m, ran: &commands}
		}
		begin = time.Now()
		return shells
	}})
	if commands < 4 {
		t.Fatalf("README.md has %d commands for machines", commands)
	}
	t.Logf("from two fresh machines to two nodes that ping: %d commands, %v", commands, time.Since(begin).Round(10*time.Millisecond))
}

// network boots a machine for each host, with a cable to a switch for each interface.
func network(t *testing.T, hosts []pages.Host) map[string]*machine {
	t.Helper()
	machines := map[string]*machine{}
	for _, h := range hosts {
		m := newMachine(t)
		m.Boot(t)
		machines[h.Name] = m
	}
	// The first machine has the switch: a bridge without an address, which is not a usable interface.
	hub := strconv.Itoa(machines[hosts[0].Name].Leader())
	host := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("nsenter", append([]string{"--net", "--target"}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("nsenter %q: %v\n%s", args, err, out)
		}
	}
	host(hub, "ip", "link", "add", "switch", "type", "bridge")
	host(hub, "ip", "link", "set", "switch", "up")
	for k, h := range hosts {
		leader := strconv.Itoa(machines[h.Name].Leader())
		for n, i := range h.Interfaces {
			port := "port" + strconv.Itoa(k) + "-" + strconv.Itoa(n)
			host(hub, "ip", "link", "add", port, "type", "veth", "peer", "name", "cable"+strconv.Itoa(n))
			host(hub, "ip", "link", "set", "cable"+strconv.Itoa(n), "name", i.Device, "netns", leader)
			host(hub, "ip", "link", "set", port, "master", "switch", "up")
			host(leader, "ip", "addr", "add", i.Address.String()+"/24", "dev", i.Device)
			host(leader, "ip", "link", "set", i.Device, "up")
		}
	}
	return machines
}

// copyPackage puts a package into the directory of root, where README.md expects it.
func copyPackage(t *testing.T, m *machine, name string) {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	m.Write(t, "/root/"+filepath.Base(name), string(content))
}

// machineShell runs commands as root in a machine. It implements pages.Shell.
type machineShell struct {
	t       *testing.T
	machine *machine
	ran     *int
}

// Run implements pages.Shell.
func (s *machineShell) Run(_ context.Context, command string) (output string, status int, err error) {
	*s.ran++
	output, err = s.machine.Try(s.t, "cd /root && "+command)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return output, exit.ExitCode(), nil
	}
	return output, 0, err
}

// Close implements pages.Shell. The machine ends with the test.
func (s *machineShell) Close() {}
