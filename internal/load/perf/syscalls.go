package perf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The kernel counts system calls of all kinds at its tracepoint raw_syscalls:sys_enter. Only root, and
// processes with CAP_PERFMON that can read tracefs, may use it. Counting makes each system call slower
// by some tenths of a microsecond. So the calls are counted in separate rounds, whose times are not
// used.

// errNotPermitted is returned if this process is not allowed to count system calls of all kinds.
var errNotPermitted = errors.New("system calls of all kinds cannot be counted")

// enterEvent is the file in tracefs that contains the number of the tracepoint.
const enterEvent = "events/raw_syscalls/sys_enter/id"

// sysEnter returns the number of the tracepoint. It reads the number only once.
var sysEnter = sync.OnceValues(func() (uint64, error) {
	var errs []error
	for _, dir := range []string{"/sys/kernel/tracing/", "/sys/kernel/debug/tracing/"} {
		text, err := os.ReadFile(dir + enterEvent)
		if err == nil {
			return eventNumber(text)
		}
		errs = append(errs, err)
	}
	text, err := readDetached()
	if err == nil {
		return eventNumber(text)
	}
	return 0, fmt.Errorf("%w: tracefs: %w", errNotPermitted, errors.Join(errs[0], err))
})

func eventNumber(text []byte) (uint64, error) {
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", enterEvent, err)
	}
	return n, nil
}

// readDetached reads the number from an instance of tracefs that is not mounted anywhere, and closes the
// instance.
func readDetached() ([]byte, error) {
	fs, err := unix.Fsopen("tracefs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("fsopen", err)
	}
	defer func() { _ = unix.Close(fs) }()
	if err := unix.FsconfigCreate(fs); err != nil {
		return nil, os.NewSyscallError("fsconfig", err)
	}
	mount, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fsmount", err)
	}
	defer func() { _ = unix.Close(mount) }()
	file, err := unix.Openat(mount, enterEvent, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("openat", err)
	}
	defer func() { _ = unix.Close(file) }()
	text := make([]byte, 32)
	n, err := unix.Read(file, text)
	return text[:max(n, 0)], os.NewSyscallError("read", err)
}

// callCounter counts the system calls of this process. It has one kernel counter per thread. A new
// thread inherits the counter of the thread that started it.
type callCounter struct {
	fds   []int
	first uint64
}

// countTries is how often openCallCounter tries to open a counter for each thread while no thread starts
// or ends.
const countTries = 100

// openCallCounter opens a counter for each thread of this process. It returns errNotPermitted if that is
// not allowed.
func openCallCounter() (*callCounter, error) {
	event, err := sysEnter()
	if err != nil {
		return nil, err
	}
	for range countTries {
		before, err := threads()
		if err != nil {
			return nil, err
		}
		c := &callCounter{}
		for _, tid := range before {
			if err = c.open(event, tid); err != nil {
				break
			}
		}
		if errors.Is(err, unix.ESRCH) { // the thread has ended
			c.close()
			continue
		}
		if err != nil {
			c.close()
			return nil, err
		}
		after, err := threads()
		if err == nil && slices.Equal(before, after) {
			return c, nil
		}
		// A new thread was started. It is not known whether it is counted, because the thread that started it
		// may not have had a counter yet.
		c.close()
		if err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("cannot count system calls: threads of the process start and end all the time")
}

func (c *callCounter) open(event uint64, tid int) error {
	a := unix.PerfEventAttr{Type: unix.PERF_TYPE_TRACEPOINT, Config: event, Bits: unix.PerfBitInherit}
	a.Size = uint32(unsafe.Sizeof(a))
	fd, err := unix.PerfEventOpen(&a, tid, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	switch {
	case err == nil:
		c.fds = append(c.fds, fd)
		return nil
	case errors.Is(err, unix.ESRCH):
		return err
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.ENOENT):
		return fmt.Errorf("%w: perf_event_open: %w", errNotPermitted, err)
	}
	return os.NewSyscallError("perf_event_open", err)
}

// start starts counting. If it returns an error, the counters are closed.
func (c *callCounter) start() (err error) {
	if c.first, err = c.read(); err != nil {
		c.close()
	}
	return err
}

// end returns the number of calls since start and closes the counters.
func (c *callCounter) end() (uint64, error) {
	defer c.close()
	last, err := c.read()
	return last - c.first, err
}

func (c *callCounter) read() (sum uint64, err error) {
	for _, fd := range c.fds {
		var b [8]byte
		if _, err := unix.Read(fd, b[:]); err != nil {
			return 0, os.NewSyscallError("read of a counter", err)
		}
		sum += binary.NativeEndian.Uint64(b[:])
	}
	return sum, nil
}

func (c *callCounter) close() {
	for _, fd := range c.fds {
		_ = unix.Close(fd) // closing a counter cannot fail
	}
	c.fds = nil
}

// threads returns the sorted IDs of this process's threads.
func threads() ([]int, error) {
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nil, err
	}
	var tids []int
	for _, e := range entries {
		tid, err := strconv.Atoi(e.Name())
		if err != nil {
			return nil, err
		}
		tids = append(tids, tid)
	}
	slices.Sort(tids)
	return tids, nil
}

// UncountedSyscalls returns why system calls of all kinds cannot be counted, or nil if they can.
func UncountedSyscalls() error {
	c, err := openCallCounter()
	if err == nil {
		c.close()
	}
	return err
}
