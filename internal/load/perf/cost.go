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
)

// The costs of messages in a process. The names are used in JSON and in files with bounds.
const (
	// Wakeups are voluntary context switches of all threads. Each is a sleep that another thread must
	// end.
	Wakeups = "wakeups"
	// Preemptions are involuntary context switches. They show how busy the machine was.
	Preemptions = "preemptions"
	// Syscalls are system calls of all kinds.
	Syscalls = "syscalls"
	// IOSyscalls are reads and writes, including vectored ones. This covers the traffic of sockets and
	// eventfds here, but not futex, epoll or recvmsg.
	IOSyscalls = "io_syscalls"
	// CPU is user and system time in microseconds.
	CPU = "cpu_us"
	// Allocs are allocations on Go's heap.
	Allocs = "allocs"
)

// Cost maps these names to the costs of a process. Costs that could not be counted are missing.
type Cost map[string]float64

// each returns the cost of one of n messages. look is the cost of counting, which is subtracted.
func (c Cost) each(n int, look Cost) Cost {
	out := Cost{}
	for k, v := range c {
		out[k] = max(0, v-look[k]) / float64(n)
	}
	return out
}

// least returns the minimum of each figure.
func (c Cost) least(o Cost) Cost {
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
	calls *callCounter // while it counts system calls
}

// readings are counters of a process.
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

// begin starts counting. If calls is set, it also counts system calls of all kinds, if that is permitted.
// This makes every system call more expensive, so the other costs are then not meaningful.
func (m *meter) begin(calls bool) error {
	if calls {
		c, err := countCalls()
		if err == nil {
			m.calls = c
		} else if !errors.Is(err, errNotPermitted) {
			return err
		}
	}
	var s runtime.MemStats
	runtime.ReadMemStats(&s) // stops the world: first here, and last in end
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
