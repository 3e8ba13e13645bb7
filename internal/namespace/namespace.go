// Package namespace makes network namespaces for tests that need hosts of their
// own. It needs root and iproute2, and has no goroutines.
package namespace

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// New makes a namespace that goes with the test.
func New(t testing.TB, name string) {
	t.Helper()
	IP(t, "netns", "add", name)
	t.Cleanup(func() {
		if out, err := exec.Command("ip", "netns", "del", name).CombinedOutput(); err != nil {
			t.Errorf("ip netns del %s: %v\n%s", name, err, out)
		}
	})
	IP(t, "-n", name, "link", "set", "lo", "up")
}

// Cable connects the device dev of a namespace, with an address such as
// 10.0.0.1/24, to a bridge in another one, where the cable's end is called port.
func Cable(t testing.TB, name, dev, address, room, port, bridge string) {
	t.Helper()
	IP(t, "link", "add", dev, "netns", name, "type", "veth", "peer", "name", port, "netns", room)
	IP(t, "-n", room, "link", "set", port, "master", bridge)
	IP(t, "-n", room, "link", "set", port, "up")
	IP(t, "-n", name, "addr", "add", address, "dev", dev)
	IP(t, "-n", name, "link", "set", dev, "up")
}

// IP runs ip, which has to succeed.
func IP(t testing.TB, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// Sweep deletes the namespaces that test processes left which were killed: those
// whose name is the prefix and the ID of a process that is gone.
func Sweep(prefix string) {
	for _, path := range Orphans(filepath.Join("/run/netns", prefix)) {
		_ = exec.Command("ip", "netns", "del", filepath.Base(path)).Run()
	}
}

// Orphans are the files whose path is the prefix and the ID of a process that is
// gone, with anything behind a dash.
func Orphans(prefix string) (paths []string) {
	all, _ := filepath.Glob(prefix + "*")
	for _, path := range all {
		id, _, _ := strings.Cut(strings.TrimPrefix(path, prefix), "-")
		pid, err := strconv.Atoi(id)
		if err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			paths = append(paths, path)
		}
	}
	return paths
}

// Scratch makes a directory of this process's that any user may look into, and
// deletes those that processes left which were killed.
func Scratch(prefix string) (dir string, err error) {
	for _, path := range Orphans(filepath.Join(os.TempDir(), prefix)) {
		_ = os.RemoveAll(path)
	}
	if dir, err = os.MkdirTemp("", prefix+strconv.Itoa(os.Getpid())+"-"); err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o755) //nolint:gosec // another user may run the programs there
}
