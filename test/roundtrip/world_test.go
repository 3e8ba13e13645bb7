package roundtrip

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/daemontest"
	"github.com/lnetd/lnetd/internal/testing/namespace"
	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// namespaces is the beginning of the names of all namespaces of these tests. A process ID follows.
const namespaces = "lnetd-trip-"

// scratch is the directory that all tests share. TestMain creates it.
var scratch string

// programs returns the directory of lnetd and lnetdctl. They are built on the first call.
var programs = sync.OnceValues(func() (string, error) { return scratch, daemontest.Build(scratch) })

// machines numbers the machines of a process.
var machines atomic.Int32

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if scratch, err = namespace.Scratch(namespaces); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	namespace.Sweep(namespaces)
	return m.Run()
}

// machine is an lnetd in a namespace, on which lnetdctl can be run.
type machine struct {
	*daemontest.Process
	dir string
}

// newMachine creates a machine whose interfaces have the addresses, such as "10.0.0.1/24". LNet is
// configured, with only 0@lo.
func newMachine(t *testing.T, interfaces map[string][]string) *machine {
	t.Helper()
	testenv.NeedRoot(t)
	testenv.NeedCommand(t, "ip", "iproute2")
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("%s%d-%d", namespaces, os.Getpid(), machines.Add(1))
	namespace.New(t, name)
	for dev, addresses := range interfaces {
		namespace.IP(t, "link", "add", dev, "netns", name, "type", "veth", "peer", "name", "far-"+dev, "netns", name)
		namespace.IP(t, "-n", name, "link", "set", "far-"+dev, "up")
		namespace.IP(t, "-n", name, "link", "set", dev, "up")
		for _, a := range addresses {
			args := []string{"-n", name, "addr", "add", a, "dev", dev}
			if netip.MustParsePrefix(a).Addr().Is6() {
				args = append(args, "nodad") // otherwise it cannot be used for a while
			}
			namespace.IP(t, args...)
		}
	}
	dir, err := os.MkdirTemp(scratch, "m")
	if err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(dir, "lnet.conf")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	m := &machine{dir: dir, Process: daemontest.Run(t, daemontest.Launch{
		Name: name, Namespace: name, Programs: bin, Socket: socket,
		Command: []string{filepath.Join(bin, "lnetd"), "--config", empty, "--control-socket", socket},
	})}
	m.clear(t)
	return m
}

// clear removes the whole configuration.
func (m *machine) clear(t *testing.T) {
	t.Helper()
	m.quietly(t, "lnet", "unconfigure")
	m.quietly(t, "lnet", "configure")
}

// ran is the output and the exit status of a command.
type ran struct {
	out, err string
	status   int
}

// ctl runs lnetdctl.
func (m *machine) ctl(t *testing.T, args ...string) ran {
	t.Helper()
	var out, err bytes.Buffer
	cmd := exec.CommandContext(t.Context(), filepath.Join(m.Programs, "lnetdctl"), append([]string{"--control-socket", m.Socket}, args...)...)
	cmd.Env = append(os.Environ(), "LNETDCTL_HINTS=never")
	cmd.Stdout, cmd.Stderr = &out, &err
	var exit *exec.ExitError
	if e := cmd.Run(); e != nil && !errors.As(e, &exit) {
		t.Fatal(args, e)
	}
	return ran{out.String(), err.String(), cmd.ProcessState.ExitCode()}
}

// prints runs a command that must succeed without warnings, and returns its output.
func (m *machine) prints(t *testing.T, args ...string) string {
	t.Helper()
	got := m.ctl(t, args...)
	if got.status != 0 || got.err != "" {
		t.Fatalf("lnetdctl %s: %+v", strings.Join(args, " "), got)
	}
	return got.out
}

// quietly runs a command that must succeed and print nothing.
func (m *machine) quietly(t *testing.T, args ...string) {
	t.Helper()
	if out := m.prints(t, args...); out != "" {
		t.Fatalf("lnetdctl %s printed\n%s", strings.Join(args, " "), out)
	}
}

// file writes the text to a file and returns its path.
func (m *machine) file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(m.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
