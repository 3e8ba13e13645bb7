package perf

import (
	"errors"
	"io"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/load/tracing"
)

// counted returns the costs of f in this process, without the cost of counting.
func counted(t *testing.T, calls bool, f func()) Cost {
	t.Helper()
	m, err := newMeter()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.close(); err != nil {
			t.Error(err)
		}
	}()
	one := func(f func()) Cost {
		if err := m.begin(calls); err != nil {
			t.Fatal(err)
		}
		f()
		c, err := m.end()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	var look Cost
	for range overheadSamples {
		look = look.minimum(one(func() {}))
	}
	return one(f).each(1, look)
}

// about allows for what the rest of this process does meanwhile.
func about(t *testing.T, what string, got, want float64) {
	t.Helper()
	if got < want || got > want+want/4+100 {
		t.Errorf("%s: %.0f, want %.0f or a few more", what, got, want)
	}
}

// A meter counts each read and write, sleep and allocation.
func TestMeter(t *testing.T) {
	const n = 4000
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = unix.Close(pipe[0]), unix.Close(pipe[1]) }()
	b := make([]byte, 1)
	vector := [][]byte{b}
	var sink *[100]byte
	c := counted(t, false, func() {
		for range n / 4 {
			_, _ = unix.Writev(pipe[1], vector)
			_, _ = unix.Readv(pipe[0], vector)
			_, _ = unix.Read(pipe[0], b)  // no data: is counted nevertheless
			_, _ = unix.Write(pipe[0], b) // refused before anything is written: is not counted
		}
		for range n {
			sink = new([100]byte)
		}
	})
	runtime.KeepAlive(sink)
	about(t, "reads and writes", c[IOSyscalls], n*3/4)
	about(t, "allocations", c[Allocs], n)
	if c[CPU] <= 0 {
		t.Error("no processor time")
	}
	if _, ok := c[Syscalls]; ok {
		t.Error("system calls of all kinds are counted where nobody asked for it")
	}

	// A thread that waits for another thread sleeps.
	c = counted(t, false, func() { rally(t, n) })
	if c[Wakeups] < n/2 {
		t.Errorf("%.0f wake-ups of %d exchanges between threads", c[Wakeups], n)
	}
}

// rally makes two threads wake each other n times, through pipes at which they sleep.
func rally(t *testing.T, n int) {
	t.Helper()
	var there, back [2]int
	for _, p := range []*[2]int{&there, &back} {
		if err := unix.Pipe2(p[:], 0); err != nil {
			t.Error(err)
			return
		}
		defer func() { _, _ = unix.Close(p[0]), unix.Close(p[1]) }()
	}
	done := make(chan struct{})
	pass := func(from, to int) {
		b := make([]byte, 1)
		for range n {
			if _, err := unix.Read(from, b); err != nil {
				t.Error(err)
			}
			if _, err := unix.Write(to, b); err != nil {
				t.Error(err)
			}
		}
	}
	go func() {
		defer close(done)
		pass(there[0], back[1])
	}()
	if _, err := unix.Write(there[1], make([]byte, 1)); err != nil {
		t.Error(err)
	}
	pass(back[0], there[1])
	<-done
}

// System calls of all kinds are counted, in all threads, including new ones. Otherwise the error has the
// reason.
func TestSyscalls(t *testing.T) {
	const n = 5000
	call := func() {
		for range n {
			_, _, _ = syscall.RawSyscall(syscall.SYS_GETPPID, 0, 0, 0)
		}
	}
	c := counted(t, true, func() {
		call()
		var ends []chan struct{}
		for range 4 {
			end := make(chan struct{})
			ends = append(ends, end)
			go func() {
				defer close(end)
				runtime.LockOSThread() // the thread ends with the goroutine
				call()
			}()
		}
		for _, end := range ends {
			<-end
		}
	})
	got, ok := c[Syscalls]
	how := strings.Join(How(), "\n")
	if err := UncountedSyscalls(); err != nil {
		if !errors.Is(err, tracing.ErrNotPermitted) {
			t.Fatal(err)
		}
		if ok || !strings.Contains(how, "syscalls: not counted: ") {
			t.Errorf("counted: %t, although %v; it says\n%s", ok, err, how)
		}
		return
	}
	about(t, "system calls", got, 5*n)
	if !strings.Contains(how, "raw_syscalls:sys_enter") {
		t.Error(how)
	}
}

func TestIOCalls(t *testing.T) {
	if n, err := ioCalls([]byte("rchar: 5\nwchar: 6\nsyscr: 7\nsyscw: 8\nread_bytes: 9\n")); n != 15 || err != nil {
		t.Error(n, err)
	}
	for _, text := range []string{"", "rchar: 5\nsyscr: 7\n", "syscr: many\nsyscw: 8\n", "syscr: -1\nsyscw: 8\n"} {
		if n, err := ioCalls([]byte(text)); err == nil {
			t.Errorf("%q: %v", text, n)
		}
	}
}

// A process that dies, or sends invalid answers, results in an error.
func TestProcess(t *testing.T) {
	for name, said := range map[string]string{
		"it has died": "", "it talks nonsense": "hello\n", "it refuses": `{"error":"no memory"}` + "\n",
		"it leaves something out": "{}\n",
	} {
		p := NewProcess(strings.NewReader(said), io.Discard)
		if r, err := (remotePair{p}).run(t.Context(), MethodLNet, 1, false); err == nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
	var out strings.Builder
	if err := ServeCosts(t.Context(), strings.NewReader(`{"do":"dance"}`+"\n"), &out); err != nil || !strings.Contains(out.String(), `does not know the request \"dance\"`) {
		t.Error(err, out.String())
	}
	if err := ServeCosts(t.Context(), strings.NewReader("count\n"), &out); err == nil {
		t.Error("what is no JSON is taken")
	}
}
