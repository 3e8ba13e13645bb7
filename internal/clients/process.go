package clients

import (
	"fmt"
	"net"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Process is who has a connection, as the kernel said when it was made.
type Process struct {
	PID      int32
	UID, GID uint32
	// Cgroup is that of cgroup 2, or the whole of /proc/PID/cgroup's first line; empty if
	// the process was gone.
	Cgroup string

	groups []uint32 // its other ones
}

// processOf finds out who is at the other end.
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

// peerGroups asks for the supplementary groups.
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

// cgroupOf reads the control group of a process.
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
