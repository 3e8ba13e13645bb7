package perf

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// UseHalf restricts this process to one half, 0 or 1, of the processors that it may use. Two processes
// that exchange messages then have separate processors, as on two hosts, independent of the scheduler.
// Call it before goroutines restrict themselves to processors. It returns ENODEV if there is only one
// processor.
func UseHalf(half int) error {
	var all, mine unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return fmt.Errorf("processors of this process: %w", err)
	}
	n := all.Count()
	if n < 2 {
		return fmt.Errorf("halve %d processor: %w", n, unix.ENODEV)
	}
	seen := 0
	for cpu := 0; seen < n; cpu++ {
		if !all.IsSet(cpu) {
			continue
		}
		if seen*2/n == half {
			mine.Set(cpu)
		}
		seen++
	}
	return confine(&mine)
}

// KeepTogether restricts this process to the first processor that it may use, as the scheduler often does
// with processes that wake each other. Call it at the same time as UseHalf.
func KeepTogether() error {
	var all, mine unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return fmt.Errorf("processors of this process: %w", err)
	}
	cpu := 0
	for !all.IsSet(cpu) {
		cpu++
	}
	mine.Set(cpu)
	return confine(&mine)
}

// confine restricts all threads of this process to the processors in mine.
func confine(mine *unix.CPUSet) error {
	// A new thread inherits the processors of the thread that started it. The second pass finds threads
	// that were started during the first.
	for range 2 {
		tids, err := threads()
		if err != nil {
			return err
		}
		for _, tid := range tids {
			if err := unix.SchedSetaffinity(tid, mine); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("confine thread %d: %w", tid, err)
			}
		}
	}
	if os.Getenv("GOMAXPROCS") == "" { // a number set by the user has priority
		runtime.GOMAXPROCS(mine.Count())
	}
	return nil
}
