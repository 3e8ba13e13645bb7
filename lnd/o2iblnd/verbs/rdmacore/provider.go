//go:build o2ib

package rdmacore

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -Werror
#cgo LDFLAGS: -ldl
#include "o2.h"
#cgo noescape o2_cq_poll
#cgo nocallback o2_cq_poll
#cgo noescape o2_post
#cgo nocallback o2_post
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
)

// provider implements verbs.Provider.
type provider struct {
	polls, posts, sleeps, events, others atomic.Uint64

	tokens   atomic.Uint64 // numbers by which C names IDs
	channels atomic.Int64  // open

	mu      sync.Mutex
	closed  bool
	devices map[C.uintptr_t]*device // by the library's context
}

// loading is for the libraries' table in C.
var loading sync.Mutex

// Open finds rdma-core and asks the kernel whether this process may use it. The
// error is verbs.ErrNoLibrary or verbs.ErrNoRDMA.
func Open() (verbs.Provider, error) {
	loading.Lock()
	rc := C.o2_load()
	loading.Unlock()
	if rc < 0 {
		return nil, verbs.Wrap(verbs.ErrNoLibrary, "open")
	}
	p := &provider{devices: make(map[C.uintptr_t]*device)}
	c, err := p.OpenChannel()
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", verbs.ErrNoRDMA, err)
	}
	return p, c.Close()
}

// Live is how many objects of the shim there are in the process, for tests that look for leaks.
func Live() int { return int(C.o2_live()) }

func (p *provider) Crossings() verbs.Crossings {
	return verbs.Crossings{Polls: p.polls.Load(), Posts: p.posts.Load(), Sleeps: p.sleeps.Load(), Events: p.events.Load(), Others: p.others.Load()}
}

func (p *provider) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.devices) > 0 || p.channels.Load() > 0 {
		return verbs.Wrap(syscall.EBUSY, "close: %d devices and %d channels left", len(p.devices), p.channels.Load())
	}
	p.closed = true
	return nil
}

// errno turns a result of the shim's into an error.
func errno(rc C.int) error {
	if rc >= 0 {
		return nil
	}
	return syscall.Errno(-rc)
}

// waiter is a file descriptor that the netpoller watches.
type waiter struct {
	file *os.File
	raw  syscall.RawConn
}

// newWaiter takes over fd, which is in non-blocking mode.
func newWaiter(fd C.int, name string) (w waiter, err error) {
	w.file = os.NewFile(uintptr(fd), name)
	w.raw, err = w.file.SyscallConn()
	return w, err
}

// wait calls harvest until it is done, and in between until there is something to read.
func (w *waiter) wait(harvest func(fd uintptr) bool) error {
	if err := w.raw.Read(harvest); errors.Is(err, os.ErrClosed) {
		return verbs.ErrClosed
	} else if err != nil {
		return err
	}
	return nil
}
