package perf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/load/tracing"
)

// The kernel counts system calls of all kinds at its tracepoint raw_syscalls:sys_enter. Only root, and
// processes with CAP_PERFMON that can read tracefs, may use it. Counting makes each system call slower
// by some tenths of a microsecond. So the calls are counted in separate rounds, whose times are not
// used.

// sysEnter returns the number of the tracepoint. It reads the number only once.
var sysEnter = sync.OnceValues(func() (uint64, error) {
	p, err := tracing.Find("raw_syscalls/sys_enter")
	if err != nil {
		return 0, err
	}
	return p.ID, nil
})

// callCounter counts the system calls of this process. It has one kernel counter per thread. A new
// thread inherits the counter of the thread that started it.
type callCounter struct {
	fds   []int
	first uint64
}

// countTries is how often openCallCounter tries to open a counter for each thread while no thread starts
// or ends.
const countTries = 100

// openCallCounter opens a counter for each thread of this process. It returns tracing.ErrNotPermitted if that
// is not allowed.
func openCallCounter() (*callCounter, error) {
	event, err := sysEnter()
	if err != nil {
		return nil, err
	}
	for range countTries {
		before, err := threads("self")
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
		after, err := threads("self")
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
		return filterYields(fd)
	case errors.Is(err, unix.ESRCH):
		return err
	}
	return tracing.OpenError(err)
}

// noYields excludes sched_yield, which goroutines call between polls: their number shows only how long they poll.
var noYields = fmt.Appendf(nil, "id != %d\x00", unix.SYS_SCHED_YIELD)

// filterYields lets a counter count only calls that noYields matches.
func filterYields(fd int) error {
	_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.PERF_EVENT_IOC_SET_FILTER, uintptr(unsafe.Pointer(&noYields[0])))
	if e != 0 {
		return os.NewSyscallError("set the filter of a counter", e)
	}
	return nil
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

// threads returns the sorted IDs of the threads of a process: its number, or self.
func threads(process string) ([]int, error) {
	entries, err := os.ReadDir("/proc/" + process + "/task")
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
