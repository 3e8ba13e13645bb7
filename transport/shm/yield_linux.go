package shm

import "syscall"

// Yield lets other threads run on this one's processor, of other processes too. Who polls
// for what another process makes calls it between looks: the maker may want a processor.
func Yield() { _, _, _ = syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0) }
