package shared

import "syscall"

// Yield lets other threads, including those of other processes, run on this processor. A goroutine that polls
// for data of another process calls Yield between polls, because that process may need the processor.
func Yield() { _, _, _ = syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0) }
