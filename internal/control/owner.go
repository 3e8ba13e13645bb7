package control

import (
	"net"
	"os"
	"syscall"
)

// Credentials are those of the process at the other end of a unix socket's
// connection, as the kernel noted them: of a server when it called listen, of a
// client when it called connect. ok is false if it notes none.
func Credentials(conn net.Conn) (_ *syscall.Ucred, ok bool) {
	c, isUnix := conn.(*net.UnixConn)
	if !isUnix {
		return nil, false
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, false
	}
	var cred *syscall.Ucred
	err = raw.Control(func(fd uintptr) {
		cred, ok = nil, false
		if u, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil {
			cred, ok = u, true
		}
	})
	return cred, ok && err == nil
}

// ListenerOf describes the process that a connection leads to.
func ListenerOf(conn net.Conn) Process {
	p := Process{UID: -1}
	if cred, ok := Credentials(conn); ok {
		if cred.Pid > 0 {
			p = FindProcess(int(cred.Pid))
		}
		p.UID = int(cred.Uid)
	}
	return p
}

// rootsOrOwn trusts the sockets that root or the caller listens on.
func rootsOrOwn(uid int) bool { return uid == 0 || uid == os.Geteuid() }

// foreignError refuses a socket that nobody has named and that is another
// user's.
type foreignError struct{ owner Process }

func (e *foreignError) Error() string {
	return "it belongs to neither root nor the caller but to " + e.owner.String()
}

func (e *foreignError) Unwrap() error { return syscall.EPERM }
