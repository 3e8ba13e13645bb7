package namespace

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// Do calls f in the network namespace name and returns the error of f. It locks the goroutine to its
// thread, which enters the namespace for the call and returns to the previous namespace afterwards. f
// must not start goroutines that depend on the namespace, because they run on other threads. f must not
// end the goroutine while it is in the namespace (runtime.Goexit, t.Fatal): the thread would end too,
// and the kernel kills processes with a parent-death signal when the thread that started them ends.
func Do(name string, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	defer func() { _ = home.Close() }()
	there, err := os.Open(filepath.Join("/run/netns", name))
	if err != nil {
		return err
	}
	defer func() { _ = there.Close() }()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		return os.NewSyscallError("setns", err)
	}
	defer func() {
		if err := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); err != nil {
			panic(fmt.Sprintf("the thread cannot leave the namespace %s: %v", name, err))
		}
	}()
	return f()
}
