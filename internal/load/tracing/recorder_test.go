package tracing

import (
	"errors"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// echoes is the number of exchanges that are recorded.
const echoes = 200

// Two threads wake each other through a pair of eventfds. The recording has both wake-ups, and the system calls
// of both threads with their results.
func TestRecordEventfds(t *testing.T) {
	r, err := Open()
	if errors.Is(err, ErrNotPermitted) {
		if os.Geteuid() == 0 {
			t.Logf("this machine has no tracepoints: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var fds [2]int
	for k := range fds {
		if fds[k], err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = unix.Close(fds[k]) }()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	us, peer := unix.Gettid(), make(chan int)
	ended := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		peer <- unix.Gettid()
		ended <- swap(fds[0], fds[1], false)
	}()
	them := <-peer
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	if err := swap(fds[0], fds[1], true); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	events, err := r.Stop()
	if errors.Is(err, ErrLost) {
		t.Log("other programs on this machine have filled the memory for events") // a busy machine is no defect
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	checkEchoes(t, events, us, them)
}

// swap writes to one eventfd and reads from the other. If begins is set, it writes first.
func swap(ask, answer int, begins bool) error {
	word := [8]byte{1}
	for range echoes {
		steps := []func() (int, error){
			func() (int, error) { return unix.Write(ask, word[:]) },
			func() (int, error) { return unix.Read(answer, word[:]) },
		}
		if !begins {
			steps = []func() (int, error){
				func() (int, error) { return unix.Read(ask, word[:]) },
				func() (int, error) { return unix.Write(answer, word[:]) },
			}
		}
		for _, step := range steps {
			if err := retry(step); err != nil {
				return err
			}
		}
	}
	return nil
}

// retry calls f until a signal does not interrupt it.
func retry(f func() (int, error)) error {
	for {
		if _, err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// checkEchoes checks the events of two threads that have exchanged eventfds.
func checkEchoes(t *testing.T, events []Event, us, them int) {
	t.Helper()
	both, wakes, writes, slept := 0, 0, 0, 0
	last := int64(0)
	for _, e := range events {
		if e.At < last {
			t.Fatalf("an event at %v follows one at %v", time.Duration(e.At), time.Duration(last))
		}
		last = e.At
		if e.TID != us && e.TID != them {
			continue
		}
		switch e.Kind {
		case Enter:
			if e.TID == us && e.Call == unix.SYS_WRITE { // an exchange begins
				if wakes == 2 {
					both++
				}
				wakes = 0
			}
		case Exit:
			if e.Call == unix.SYS_WRITE && e.Result == 8 {
				writes++
			}
		case Wake:
			if e.Other == us || e.Other == them {
				wakes++
			}
		case Switch:
			if e.Asleep {
				slept++
			}
		}
	}
	// An end may find the other's answer before it sleeps, so not each exchange has two wake-ups.
	if both == 0 || writes != 2*echoes || slept == 0 {
		t.Errorf("%d exchanges with two wake-ups, %d writes and %d sleeps in %d events", both, writes, slept, len(events))
	}
}
