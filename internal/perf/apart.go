package perf

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// KeepApart gives this process one half, 0 or 1, of the processors that it may use: so two
// processes that exchange messages have processors of their own, as they have on two
// hosts, wherever the scheduler would put them. It is called before goroutines confine
// themselves. ENODEV: there is just one processor.
func KeepApart(half int) error {
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

// KeepTogether gives this process the first of the processors that it may use, as the
// scheduler likes to do with processes that wake each other. It is called as KeepApart is.
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

// confine gives all threads of this process some processors.
func confine(mine *unix.CPUSet) error {
	// What a thread starts has its processors, so that a second look finds who was started
	// beside the first.
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
	if os.Getenv("GOMAXPROCS") == "" { // who says how many wants so many
		runtime.GOMAXPROCS(mine.Count())
	}
	return nil
}
