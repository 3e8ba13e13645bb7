//go:build mpi && cgo

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/lnetd/lnetd/internal/lnetd/clients"
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
	socket  string     // its directory has nothing else
}

// running is the library of this process, or nil. mu guards it, and used, which is set by the first init.
var (
	mu      sync.Mutex
	running *library
	used    bool
)

var errNotRunning = fmt.Errorf("LNet does not run: %w", syscall.EINVAL)

// initialize starts LNet over a communicator.
func initialize(comm int32) error {
	mu.Lock()
	defer mu.Unlock()
	if used {
		return fmt.Errorf("LNet was started before: %w", syscall.EBUSY)
	}
	used = true
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
	running = l
	return nil
}

// serve hosts clients over the node of the process.
func (l *library) serve() error {
	dir, err := os.MkdirTemp("", "lnet") // for this user alone
	if err != nil {
		return err
	}
	l.socket = filepath.Join(dir, "socket")
	listener, err := clients.Listen(l.socket, -1)
	if err == nil {
		l.server, err = clients.New(clients.Config{Core: inproc.New(l.process.Node())})
		if err != nil {
			err = errors.Join(err, listener.Close())
		}
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	l.served = make(chan error, 1)
	go func() { l.served <- l.server.Serve(listener) }()
	return nil
}

// finalize ends LNet.
func finalize() error {
	mu.Lock()
	defer mu.Unlock()
	if running == nil {
		return errNotRunning
	}
	l := running
	running = nil
	ctx, cancel := context.WithTimeoutCause(context.Background(), job.DefaultTimeout, lnd.ErrTimeout)
	defer cancel()
	err := errors.Join(l.server.Close(ctx), <-l.served, os.RemoveAll(filepath.Dir(l.socket)))
	return errors.Join(l.process.Close(ctx), err)
}

// withLibrary calls f with the running library.
func withLibrary(f func(l *library) error) error {
	mu.Lock()
	defer mu.Unlock()
	if running == nil {
		return errNotRunning
	}
	return f(running)
}

// member returns a process of the job.
func (l *library) member(k int) (job.Member, error) {
	all := l.process.Members()
	if k < 0 || k >= len(all) {
		return job.Member{}, fmt.Errorf("process %d of %d: %w", k, len(all), syscall.EINVAL)
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
		return fmt.Errorf("%w: %w", err, syscall.EINVAL)
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
		return fmt.Errorf("route to %s: the job has no proxy: %w", net, syscall.ENOENT)
	}
	return nil
}

// errno returns the errno of an error for C.
func errno(err error) syscall.Errno {
	var own syscall.Errno
	switch {
	case errors.Is(err, boundary.ErrNoLibrary):
		return syscall.ENOENT
	case errors.Is(err, boundary.ErrLauncher), errors.Is(err, boundary.ErrThreads):
		return syscall.EINVAL
	case errors.Is(err, lnd.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return syscall.ETIMEDOUT
	case errors.As(err, &own) && own > 0:
		return own
	}
	return syscall.EIO
}
