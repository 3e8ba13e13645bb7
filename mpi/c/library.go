//go:build mpi && cgo

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/lnetd/clients"
	"github.com/lnetd/lnetd/internal/lnetd/unixsocket"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/mpilnd"
	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
	"github.com/lnetd/lnetd/lnd/mpilnd/job"
	"github.com/lnetd/lnetd/lnd/mpilnd/shim"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/mpi"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/transport/inproc"
)

// library is LNet in this process.
type library struct {
	process *mpi.Process
	server  *clients.Server
	served  chan error // the result of server.Serve
	file    *os.File   // of the socket
	socket  cString    // its path
}

// running is the library of this process, or nil. mu guards it, and used, which is set by the first init. It is not held
// while LNet is started, used or ended, since that may take a minute.
var (
	mu      sync.Mutex
	running *library
	used    bool
)

// misuse is an error of the caller. It has the errno that lnet_mpi.h documents for it.
type misuse struct {
	errno syscall.Errno
	text  string
}

func (e *misuse) Error() string { return e.text }

var (
	errNotRunning = &misuse{syscall.EINVAL, "LNet does not run"}
	errUsed       = &misuse{syscall.EBUSY, "LNet was started before"}
)

// initialize starts LNet over a communicator.
func initialize(comm int32) error {
	if !first() {
		return errUsed
	}
	if err := lnet.NameType(lnet.NamedType{Type: mpilnd.DefaultType, Name: "mpi", IP: true}); err != nil {
		return err
	}
	ctx := context.Background()
	p, err := mpi.Init(ctx, mpi.Config{Shim: shim.Options{Comm: &comm}})
	if err != nil {
		return err
	}
	l := &library{process: p}
	if err := l.serve(); err != nil {
		return errors.Join(err, p.Node().Close(ctx))
	}
	mu.Lock()
	running = l
	mu.Unlock()
	return nil
}

// first reports whether it is called for the first time.
func first() bool {
	mu.Lock()
	defer mu.Unlock()
	defer func() { used = true }()
	return !used
}

// serve hosts clients over the node of the process.
func (l *library) serve() error {
	listener, file, err := listen()
	if err != nil {
		return err
	}
	if l.server, err = clients.New(clients.Config{Core: inproc.New(l.process.Node())}); err != nil {
		return errors.Join(err, listener.Close(), file.Close())
	}
	l.file = file
	l.socket = newCString(fmt.Sprintf("/proc/self/fd/%d", file.Fd()))
	l.served = make(chan error, 1)
	go func() { l.served <- l.server.Serve(ownListener{listener}) }()
	return nil
}

// ownListener accepts connections of this process. Other processes of the same user reach the socket too, through /proc.
type ownListener struct{ *unixsocket.Listener }

// AcceptUnix implements clients.Listener. It closes connections of other processes.
func (l ownListener) AcceptUnix() (*net.UnixConn, error) {
	for {
		conn, err := l.Listener.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if peer, err := unixsocket.PeerOf(conn); err == nil && int(peer.PID) == os.Getpid() {
			return conn, nil
		}
		_ = conn.Close()
	}
}

// listen creates the socket, and opens its file, which it removes: nothing is left behind if the process is killed. The
// descriptor of the file is a path by which this process connects to the socket.
func listen() (*unixsocket.Listener, *os.File, error) {
	path, err := socketPath()
	if err != nil {
		return nil, nil, err
	}
	listener, err := clients.Listen(path, -1)
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(filepath.Dir(path)))
	}
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err = errors.Join(os.NewSyscallError("open "+path, err), os.RemoveAll(filepath.Dir(path))); err != nil {
		return nil, nil, errors.Join(err, listener.Close())
	}
	return listener, os.NewFile(uintptr(fd), path), nil
}

// socketPath returns a path for the socket, in a new directory that is for this user alone.
func socketPath() (string, error) {
	const prefix = "lnet"
	dir, err := os.MkdirTemp("", prefix)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "socket")
	if len(path) <= unixsocket.PathMax {
		return path, nil
	}
	if err := os.Remove(dir); err != nil {
		return "", err
	}
	if dir, err = os.MkdirTemp("/tmp", prefix); err != nil { // TMPDIR is too long
		return "", err
	}
	return filepath.Join(dir, "socket"), nil
}

// finalize ends LNet. Transfer machines work until all ranks have called it.
func finalize() error {
	mu.Lock()
	l := running
	running = nil
	mu.Unlock()
	if l == nil {
		return errNotRunning
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), job.DefaultTimeout, lnd.ErrTimeout)
	defer cancel()
	_ = l.process.Finish(ctx) // Close returns its error
	err := errors.Join(l.server.Close(ctx), <-l.served, l.file.Close())
	return errors.Join(l.process.Close(ctx), err)
}

// current returns the running library.
func current() (*library, error) {
	mu.Lock()
	defer mu.Unlock()
	if running == nil {
		return nil, errNotRunning
	}
	return running, nil
}

// withLibrary calls f with the running library.
func withLibrary(f func(l *library) error) error {
	l, err := current()
	if err != nil {
		return err
	}
	return f(l)
}

// member returns a process of the job.
func (l *library) member(k int) (job.Member, error) {
	all := l.process.Members()
	if k < 0 || k >= len(all) {
		return job.Member{}, &misuse{syscall.EINVAL, fmt.Sprintf("there is no process %d: the job has %d", k, len(all))}
	}
	return all[k], nil
}

// rank returns the number of this process.
func (l *library) rank() int {
	self := l.process.Self()
	for k, m := range l.process.Members() {
		if m == self {
			return k
		}
	}
	panic("this process is not in the table of its job")
}

// route adds routes to a net through all proxies.
func (l *library) route(text string) error {
	net, err := lnet.ParseNet(text)
	if err != nil {
		return &misuse{syscall.EINVAL, err.Error()}
	}
	found := false
	for _, m := range l.process.Members() {
		if !m.Proxy {
			continue
		}
		found = true
		err := l.process.Node().Admin().AddRoute(context.Background(), net, m.NID, node.RouteOptions{})
		if err != nil && !errors.Is(err, node.ErrExists) {
			return err
		}
	}
	if !found {
		return &misuse{syscall.ENOENT, fmt.Sprintf("route to %s: the job has no proxy", net)}
	}
	return nil
}

// errno returns the errno of an error for C.
func errno(err error) syscall.Errno {
	var m *misuse
	switch {
	case errors.As(err, &m):
		return m.errno
	case errors.Is(err, boundary.ErrNoLibrary):
		return syscall.ENOENT
	case errors.Is(err, boundary.ErrLauncher), errors.Is(err, boundary.ErrThreads), errors.Is(err, boundary.ErrNotInitialized),
		errors.Is(err, mpi.ErrConfig):
		return syscall.EINVAL
	case errors.Is(err, boundary.ErrNoConnections):
		return syscall.EOPNOTSUPP
	case errors.Is(err, lnd.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return syscall.ETIMEDOUT
	}
	return syscall.EIO
}
