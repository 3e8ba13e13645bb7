package timeline

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// callNames are the names of the system calls that programs of a measurement make. All architectures have them.
var callNames = map[int64]string{
	unix.SYS_CLOCK_GETTIME: "clock_gettime", unix.SYS_CLOCK_NANOSLEEP: "clock_nanosleep", unix.SYS_CLOSE: "close",
	unix.SYS_EPOLL_CTL: "epoll_ctl", unix.SYS_EPOLL_PWAIT: "epoll_pwait", unix.SYS_EPOLL_PWAIT2: "epoll_pwait2",
	unix.SYS_FUTEX: "futex", unix.SYS_GETPID: "getpid", unix.SYS_GETRUSAGE: "getrusage", unix.SYS_GETSOCKOPT: "getsockopt",
	unix.SYS_GETTID: "gettid", unix.SYS_IOCTL: "ioctl", unix.SYS_MADVISE: "madvise", unix.SYS_MMAP: "mmap",
	unix.SYS_MUNMAP: "munmap", unix.SYS_NANOSLEEP: "nanosleep", unix.SYS_PPOLL: "ppoll", unix.SYS_PREAD64: "pread64",
	unix.SYS_PREADV2: "preadv2", unix.SYS_PWRITEV2: "pwritev2", unix.SYS_READ: "read",
	unix.SYS_SCHED_GETAFFINITY: "sched_getaffinity", unix.SYS_READV: "readv", unix.SYS_RECVFROM: "recvfrom", unix.SYS_RECVMSG: "recvmsg",
	unix.SYS_RT_SIGPROCMASK: "rt_sigprocmask", unix.SYS_RT_SIGRETURN: "rt_sigreturn",
	unix.SYS_SCHED_SETAFFINITY: "sched_setaffinity", unix.SYS_SCHED_YIELD: "sched_yield", unix.SYS_SENDMSG: "sendmsg",
	unix.SYS_SENDTO: "sendto", unix.SYS_SETSOCKOPT: "setsockopt", unix.SYS_TGKILL: "tgkill",
	unix.SYS_TIMERFD_SETTIME: "timerfd_settime", unix.SYS_WRITE: "write", unix.SYS_WRITEV: "writev",
}

// callName returns the name of a system call, or a text with its number if the name is not known.
func callName(number int64) string {
	if name, ok := callNames[number]; ok {
		return name
	}
	return fmt.Sprintf("syscall_%d", number)
}

// maxErrno is the highest number of an error of a system call.
const maxErrno = 4095

// resultText returns the result of a system call: the name of an error, or a number. Addresses are hexadecimal.
func resultText(result int64) string {
	switch {
	case result < -maxErrno || result > 1<<32:
		return fmt.Sprintf("%#x", uint64(result))
	case result >= 0:
		return fmt.Sprint(result)
	}
	errno := unix.Errno(-result)
	if name := unix.ErrnoName(errno); name != "" {
		return name
	}
	return fmt.Sprintf("error %d", int(errno))
}
