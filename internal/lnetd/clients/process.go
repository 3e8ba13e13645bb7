package clients

import (
	"fmt"
	"net"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Process identifies the process that made a connection. The kernel recorded it when the process connected,
// so the process cannot forge it.
type Process struct {
	PID      int32
	UID, GID uint32
	// Cgroup is the path of the process's control group in cgroup 2. On a host without cgroup 2, it is the
	// first line of /proc/PID/cgroup. It is empty if the process no longer existed when it was read.
	Cgroup string

	groups []uint32 // supplementary groups
}

// processOf returns the process that made a connection.
func processOf(conn *net.UnixConn) (p Process, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return p, err
	}
	var cred *unix.Ucred
	var inner error
	err = raw.Control(func(fd uintptr) {
		if cred, inner = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); inner == nil {
			p.groups, inner = peerGroups(fd)
		}
	})
	if err == nil {
		err = inner
	}
	if err != nil {
		return p, os.NewSyscallError("getsockopt", err)
	}
	p.PID, p.UID, p.GID = cred.Pid, cred.Uid, cred.Gid
	p.Cgroup = cgroupOf(p.PID)
	return p, nil
}

// peerGroups returns the supplementary groups of the process at the other end of the Unix socket fd.
func peerGroups(fd uintptr) ([]uint32, error) {
	for groups := make([]uint32, 64); ; {
		size := uint32(4 * len(groups))
		_, _, e := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(unsafe.SliceData(groups))), uintptr(unsafe.Pointer(&size)), 0)
		switch {
		case e == unix.ERANGE && int(size) > 4*len(groups):
			groups = make([]uint32, size/4)
		case e != 0:
			return nil, e
		default:
			return groups[:size/4], nil
		}
	}
}

// cgroupOf returns the control group of a process; see Process.Cgroup.
func cgroupOf(pid int32) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(b), "\n")
	for line := range strings.Lines(string(b)) {
		if path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			return path
		}
	}
	return first
}
