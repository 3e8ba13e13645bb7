package perf

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// UseHalf restricts this process to the first (0) or second (1) half of the processors that it may use.
// Two processes with different halves run on separate processors, as on two hosts, whatever the
// scheduler does. Call it before a goroutine restricts itself to a processor. It returns ENODEV if the
// process may use only one processor.
func UseHalf(half int) error {
	var all, mine unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return fmt.Errorf("read the processors of this process: %w", err)
	}
	n := all.Count()
	if n < 2 {
		return fmt.Errorf("only %d processor can be used, but two are needed: %w", n, unix.ENODEV)
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
	return restrictProcess(&mine)
}

// KeepTogether restricts this process to the first processor that it may use. If both processes call it,
// they share a processor, as often happens with processes that wake each other. Call it before a
// goroutine restricts itself to a processor.
func KeepTogether() error {
	var all, mine unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return fmt.Errorf("read the processors of this process: %w", err)
	}
	cpu := 0
	for !all.IsSet(cpu) {
		cpu++
	}
	mine.Set(cpu)
	return restrictProcess(&mine)
}

// restrictProcess restricts all threads of this process to the processors in mine, and sets GOMAXPROCS
// to their number.
func restrictProcess(mine *unix.CPUSet) error {
	// A new thread inherits the processors of the thread that started it. The second pass finds threads
	// that were started during the first.
	for range 2 {
		tids, err := threads("self")
		if err != nil {
			return err
		}
		for _, tid := range tids {
			if err := unix.SchedSetaffinity(tid, mine); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("restrict thread %d to its processors: %w", tid, err)
			}
		}
	}
	if os.Getenv("GOMAXPROCS") == "" { // the user's GOMAXPROCS has priority
		runtime.GOMAXPROCS(mine.Count())
	}
	return nil
}
