// Package namespace creates network namespaces for tests that need several hosts. It needs root and
// iproute2, and has no goroutines.
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

// New creates a network namespace and deletes it at the end of the test.
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

// Cable creates a veth pair. One end is the device dev in the namespace name, with an address such as
// 10.0.0.1/24. The other end is the device port of a bridge in the namespace room.
func Cable(t testing.TB, name, dev, address, room, port, bridge string) {
	t.Helper()
	IP(t, "link", "add", dev, "netns", name, "type", "veth", "peer", "name", port, "netns", room)
	IP(t, "-n", room, "link", "set", port, "master", bridge)
	IP(t, "-n", room, "link", "set", port, "up")
	IP(t, "-n", name, "addr", "add", address, "dev", dev)
	IP(t, "-n", name, "link", "set", dev, "up")
}

// IP runs the ip command with the given arguments, and ends the test if the command fails.
func IP(t testing.TB, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// Sweep deletes namespaces that killed test processes have left: those whose name is the prefix followed
// by the ID of a process that no longer exists.
func Sweep(prefix string) {
	for _, path := range Orphans(filepath.Join("/run/netns", prefix)) {
		_ = exec.Command("ip", "netns", "del", filepath.Base(path)).Run()
	}
}

// Orphans returns the paths of files that killed processes have left: the prefix, the ID of a process
// that no longer exists, and optionally a dash and more text.
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

// Scratch creates a temporary directory that every user can read. Its name is the prefix and the ID of
// this process. The caller must delete it. Scratch also deletes the directories that killed processes
// have left.
func Scratch(prefix string) (dir string, err error) {
	for _, path := range Orphans(filepath.Join(os.TempDir(), prefix)) {
		_ = os.RemoveAll(path)
	}
	if dir, err = os.MkdirTemp("", prefix+strconv.Itoa(os.Getpid())+"-"); err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o755) //nolint:gosec // another user may run the programs there
}
