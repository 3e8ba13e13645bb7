package api

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Process describes a process that owns a resource, such as a port or a socket.
type Process struct {
	PID     int    // 0 if the process is not visible to this one
	UID     int    // -1 if unknown
	Command string // the command line; empty if it cannot be read
	// Program and Version are what the process has reported about itself, if anything.
	Program, Version string
}

// FindProcess returns what /proc shows about the process with the given PID. The UID is unknown.
func FindProcess(pid int) Process {
	p := Process{PID: pid, UID: -1}
	dir := "/proc/" + strconv.Itoa(pid)
	if b, err := os.ReadFile(dir + "/cmdline"); err == nil {
		p.Command = strings.TrimSpace(strings.ReplaceAll(string(b), "\x00", " "))
	}
	return p
}

// String returns a description such as `pid 4711, lnetd v1.0.0, "lnetd --port 9988"`.
func (p Process) String() string {
	if p.PID <= 0 {
		return "a process that is not visible from here (another PID namespace, or no permission to see it)"
	}
	s := fmt.Sprintf("pid %d", p.PID)
	if p.Program != "" {
		s += fmt.Sprintf(", %s %s", p.Program, p.Version)
	}
	if p.UID >= 0 {
		s += fmt.Sprintf(", uid %d", p.UID)
	}
	if p.Command != "" {
		s += fmt.Sprintf(", %q", p.Command)
	}
	return s
}

// Credentials returns the credentials of the process at the other end of a connection over a Unix socket. The
// kernel has recorded them when the process called listen or connect. Credentials returns false if they are
// not available.
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

// ListenerOf describes the process that listens at the other end of conn.
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
