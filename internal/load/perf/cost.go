package perf

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/load/tracing"
)

// The names of the costs of exchanges in a process. They are used in JSON and in files with bounds.
const (
	// Wakeups are voluntary context switches of all threads: a thread slept and was woken.
	Wakeups = "wakeups"
	// Preemptions are involuntary context switches. They show how busy the machine was.
	Preemptions = "preemptions"
	// Syscalls are system calls of all kinds except sched_yield, which is made between polls.
	Syscalls = "syscalls"
	// IOSyscalls are the system calls read and write, including the vectored ones. Here these are all calls
	// that move data through sockets and eventfds. They do not include futex, epoll and recvmsg.
	IOSyscalls = "io_syscalls"
	// Bells are the wake-ups between a program and lnetd, in both directions.
	Bells = "bells"
	// CPU is user and system time in microseconds.
	CPU = "cpu_us"
	// Allocs are allocations on Go's heap.
	Allocs = "allocs"
)

// Cost has the costs of a process by name. It has no entry for a cost that could not be counted.
type Cost map[string]float64

// each returns the costs per exchange, if c are the costs of n exchanges. It first subtracts overhead,
// the cost of the counting itself.
func (c Cost) each(n int, overhead Cost) Cost {
	out := Cost{}
	for k, v := range c {
		out[k] = max(0, v-overhead[k]) / float64(n)
	}
	return out
}

// minimum returns, for each name, the lower cost of c and o. It may change c. If c is nil, it returns o.
func (c Cost) minimum(o Cost) Cost {
	if c == nil {
		return o
	}
	for k, v := range o {
		c[k] = min(c[k], v)
	}
	return c
}

// meter counts the costs of this process between begin and end. It must not be used concurrently.
type meter struct {
	io    int // descriptor of /proc/self/io; -1: not supported by this kernel
	first readings
	calls *callCounter // set while system calls are counted
}

// readings are the values of this process's counters at one time.
type readings struct {
	usage   unix.Rusage
	cpu     time.Duration
	io      float64
	mallocs uint64
}

func newMeter() (*meter, error) {
	fd, err := unix.Open("/proc/self/io", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return &meter{io: -1}, nil
	}
	if err != nil {
		return nil, os.NewSyscallError("open /proc/self/io", err)
	}
	return &meter{io: fd}, nil
}

func (m *meter) close() error {
	if m.io < 0 {
		return nil
	}
	return unix.Close(m.io)
}

// begin starts counting. With calls, it counts only system calls, if that is permitted. That makes each
// system call more expensive, so the other costs would be wrong.
func (m *meter) begin(calls bool) error {
	if calls {
		c, err := openCallCounter()
		if err == nil {
			m.calls = c
		} else if !errors.Is(err, tracing.ErrNotPermitted) {
			return err
		}
	}
	var s runtime.MemStats
	runtime.ReadMemStats(&s) // stops the world, so it comes before the other readings here, and after them in end
	m.first.mallocs = s.Mallocs
	if err := m.first.read(m.io); err != nil {
		return err
	}
	if m.calls != nil {
		return m.calls.start()
	}
	return nil
}

// end returns the costs since begin.
func (m *meter) end() (Cost, error) {
	cost := Cost{}
	if m.calls != nil {
		n, err := m.calls.end()
		m.calls = nil
		if err != nil {
			return nil, err
		}
		cost[Syscalls] = float64(n)
		return cost, nil
	}
	last := readings{}
	if err := last.read(m.io); err != nil {
		return nil, err
	}
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	cost[Wakeups] = float64(last.usage.Nvcsw - m.first.usage.Nvcsw)
	cost[Preemptions] = float64(last.usage.Nivcsw - m.first.usage.Nivcsw)
	cost[CPU] = float64(last.cpu-m.first.cpu) / float64(time.Microsecond)
	cost[Allocs] = float64(s.Mallocs - m.first.mallocs)
	if m.io >= 0 {
		cost[IOSyscalls] = last.io - m.first.io
	}
	return cost, nil
}

func (r *readings) read(io int) error {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &at); err != nil {
		return os.NewSyscallError("clock_gettime", err)
	}
	r.cpu = time.Duration(at.Nano())
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r.usage); err != nil {
		return os.NewSyscallError("getrusage", err)
	}
	if io < 0 {
		return nil
	}
	var text [512]byte
	n, err := unix.Pread(io, text[:], 0)
	if err != nil {
		return os.NewSyscallError("pread /proc/self/io", err)
	}
	r.io, err = ioCalls(text[:n])
	return err
}

// ioCalls returns the number of system calls in a /proc/PID/io file.
func ioCalls(text []byte) (sum float64, err error) {
	found := 0
	for line := range bytes.Lines(text) {
		name, value, _ := bytes.Cut(bytes.TrimSpace(line), []byte(": "))
		if string(name) != "syscr" && string(name) != "syscw" {
			continue
		}
		n, err := strconv.ParseUint(string(value), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/self/io: %w", err)
		}
		sum += float64(n)
		found++
	}
	if found != 2 {
		return 0, fmt.Errorf("/proc/self/io has no syscr and syscw: %q", text)
	}
	return sum, nil
}
