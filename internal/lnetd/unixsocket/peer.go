package unixsocket

import (
	"net"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Peer identifies the process at the other end of a connection. The kernel recorded it when the process
// connected, so the process cannot forge it.
type Peer struct {
	PID      int32
	UID, GID uint32
	// Groups are the supplementary groups.
	Groups []uint32
}

// PeerOf returns the process at the other end of conn.
func PeerOf(conn *net.UnixConn) (p Peer, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return p, err
	}
	var cred *unix.Ucred
	var inner error
	err = raw.Control(func(fd uintptr) {
		if cred, inner = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); inner == nil {
			p.Groups, inner = peerGroups(fd)
		}
	})
	if err == nil {
		err = inner
	}
	if err != nil {
		return p, os.NewSyscallError("getsockopt", err)
	}
	p.PID, p.UID, p.GID = cred.Pid, cred.Uid, cred.Gid
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

// IsOneOf reports whether the process belongs to one of the users uids or has one of the groups gids. If both
// lists are empty, every process does.
func (p *Peer) IsOneOf(uids, gids []uint32) bool {
	if len(uids) == 0 && len(gids) == 0 || slices.Contains(uids, p.UID) || slices.Contains(gids, p.GID) {
		return true
	}
	return slices.ContainsFunc(p.Groups, func(g uint32) bool { return slices.Contains(gids, g) })
}
