package kernel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/daemontest"
	"github.com/lnetd/lnetd/internal/testing/namespace"
	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// prefix is the beginning of the names of namespaces and of the scratch directory. A process ID
// follows.
const prefix = "lnetd-kernel-"

// patience is the time limit for everything that tests wait for, so that they do not hang.
const patience = 3 * time.Minute

// pingTimeout is the number of seconds after which an unanswered ping is repeated.
const pingTimeout = "10"

// scratch holds the programs and the laboratory's state. TestMain creates it.
var scratch string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if os.Getenv("LNET_LAB") == "" {
		return m.Run() // which prints the reason
	}
	sweep()
	var err error
	if scratch, err = namespace.Scratch(prefix); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	return m.Run()
}

// sweep ends the guests of test processes that were killed, and removes their networks.
func sweep() {
	roots := namespace.Orphans(filepath.Join(os.TempDir(), prefix))
	if dir := os.Getenv("LNET_LAB_RUN"); dir != "" {
		roots = append(roots, dir)
	}
	for _, root := range roots {
		for _, path := range namespace.Orphans(filepath.Join(root, "ns-"+prefix)) {
			for _, command := range [][]string{{"stop", "--all"}, {"net", "down"}} {
				cmd := exec.Command(filepath.Join(os.Getenv("LNET_LAB"), "vm"), command...)
				cmd.Env = append(os.Environ(), "LNET_LAB_RUN="+root, "LNET_LAB_NS="+strings.TrimPrefix(filepath.Base(path), "ns-"))
				_ = cmd.Run()
			}
			_ = os.RemoveAll(path)
		}
	}
	namespace.Sweep(prefix)
}

// programs returns the directory of lnetd and lnetdctl, with the driver for RDMA. They also run in
// guests, which have the C library of Debian 12.
var programs = sync.OnceValues(func() (string, error) { return scratch, daemontest.Build(scratch, "-tags", "o2ib") })

// images are the kernel versions: 2.17 and 2.15.
var images = []string{"master", "b2_15"}

// ethernet and mixed are the nets on br0 and br1.
var ethernet, mixed = [2]string{"tcp", "tcp1"}, [2]string{"o2ib", "tcp1"}

// onEach runs a test with kernels of each version, and these nets, both at once and in parallel
// with other tests, because they mostly wait.
func onEach(t *testing.T, nets [2]string, story func(t *testing.T, l *lab)) {
	if os.Getenv("LNET_LAB") == "" {
		t.Skip("needs LNET_LAB, the directory of kernel guests; .ci/run kernel knows it")
	}
	t.Parallel()
	for _, image := range images {
		t.Run(image, func(t *testing.T) {
			t.Parallel()
			story(t, newLab(t, image, nets))
		})
	}
}

// lab is the laboratory of one test: a network namespace with two bridges.
type lab struct {
	image string
	nets  [2]string // on br0 and br1
	vm    string    // the program
	name  string    // of the namespace
	hosts int
}

// labs numbers the laboratories of a process.
var labs atomic.Int32

func newLab(t *testing.T, image string, nets [2]string) *lab {
	t.Helper()
	testenv.NeedRoot(t)
	testenv.NeedCommand(t, "ip", "iproute2")
	testenv.NeedCommand(t, "python3", "python3")
	testenv.NeedCommand(t, "qemu-system-x86_64", "qemu-system-x86")
	dir, err := filepath.Abs(os.Getenv("LNET_LAB"))
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{image: image, nets: nets, vm: filepath.Join(dir, "vm"), name: fmt.Sprintf("%s%d-%d", prefix, os.Getpid(), labs.Add(1))}
	t.Cleanup(func() {
		l.end(t, "stop", "--all")
		l.end(t, "net", "down")
	})
	l.must(t, "net", "up")
	return l
}

// command returns a call of vm. Guests are killed when the test ends, so a process of vm may be
// killed too.
func (l *lab) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, l.vm, args...)
	cmd.Env = append(os.Environ(), "LNET_LAB_NS="+l.name, "LNET_LAB_RUN="+state())
	return cmd
}

// state is the directory of images, snapshots and sockets of vm.
func state() string {
	if dir := os.Getenv("LNET_LAB_RUN"); dir != "" {
		return dir
	}
	return scratch
}

func (l *lab) end(t *testing.T, args ...string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if out, err := l.command(ctx, args...).CombinedOutput(); err != nil {
		t.Errorf("vm %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func (l *lab) must(t *testing.T, args ...string) string {
	t.Helper()
	out, status := l.try(t, args...)
	if status != 0 {
		t.Fatalf("vm %s: status %d\n%s", strings.Join(args, " "), status, out)
	}
	return out
}

// try runs vm and returns its output and its exit status. For a command in a guest this is the
// command's exit status.
func (l *lab) try(t *testing.T, args ...string) (string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := l.command(ctx, args...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("vm %s: %v", strings.Join(args, " "), err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func address(network, number int) string { return fmt.Sprintf("10.%d.0.%d", 77+network, number) }

// member is a node on the bridges, a kernel node or an lnetd.
type member struct {
	lab      *lab
	number   int // in its addresses
	networks []int
}

func (l *lab) member(networks []int) member {
	l.hosts++
	return member{lab: l, number: 10 + l.hosts, networks: networks}
}

// nid returns its NID on a network.
func (m *member) nid(network int) string {
	return address(network, m.number) + "@" + m.lab.nets[network]
}

// primary returns its first NID.
func (m *member) primary() string { return m.nid(m.networks[0]) }

// port returns the bridge's end of lnetd's cable to a network.
func (m *member) port(network int) string { return fmt.Sprintf("h%d.%d", m.number, network) }
