package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
	"github.com/lnetd/lnetd/internal/lnetd/unixsocket"
)

// ownerTimeout is the timeout for each step of finding out which process owns a socket.
const ownerTimeout = 2 * time.Second

// Listen creates the control socket at path with mode 0660 and acquires its lock. It replaces the socket
// file of a process that no longer runs. If another process owns the socket, the error is an *api.Fault
// that identifies this process.
func Listen(path string) (*unixsocket.Listener, error) {
	if len(path) <= unixsocket.PathMax {
		if err := makeRunDir(filepath.Dir(path)); err != nil {
			return nil, unusable(path, err)
		}
	}
	l, err := unixsocket.Listen("unix", path, -1)
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return nil, inUse(path, ownerOf(path))
	case err != nil:
		return nil, unusable(path, err)
	}
	return l, nil
}

// ownerOf returns the process that owns the socket at path. It gets the process that listens from the
// kernel, and that process's version from a request to it. If no process listens, it takes the process from
// the lock file.
func ownerOf(path string) api.Process {
	conn, err := net.DialTimeout("unix", path, ownerTimeout)
	if err != nil {
		return lockHolder(unixsocket.LockPath(path))
	}
	defer func() { _ = conn.Close() }()
	p := api.ListenerOf(conn)
	ctx, cancel := context.WithTimeout(context.Background(), ownerTimeout)
	defer cancel()
	c := client.New(path)
	defer c.Close()
	if v, err := c.Version(ctx); err == nil {
		p.Program, p.Version = v.Program, v.Version
		if p.PID <= 0 {
			p.PID = v.PID
		}
	}
	return p
}

func lockHolder(path string) api.Process {
	b, err := os.ReadFile(path)
	if err != nil {
		return api.Process{UID: -1}
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return api.Process{UID: -1}
	}
	return api.FindProcess(pid)
}

func inUse(path string, owner api.Process) error {
	return api.Fault{
		Code:   api.CodeSocketInUse,
		Errno:  -int(unix.EADDRINUSE),
		Text:   fmt.Sprintf("control socket %s is in use", path),
		Cause:  "it belongs to " + owner.String(),
		Remedy: "stop that process, or set another path for this lnetd with --control-socket",
	}.Because(unix.EADDRINUSE)
}

func unusable(path string, err error) error {
	f := api.Fault{
		Code:   api.CodeSocketUnusable,
		Errno:  -int(api.Errno(err)),
		Text:   fmt.Sprintf("control socket %s cannot be created", path),
		Remedy: "check the directory and its permissions, or set another path with --control-socket",
	}
	if full := api.FullDisk(path, err); full != "" {
		f.Remedy = full + ", or set another path with --control-socket"
	}
	return f.Because(err)
}
