//go:build o2ib && cgo

package rdmacore

import (
	"os"
	"sync"
	"syscall"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
)

// handle is a C object that is not destroyed during calls on it.
type handle[T comparable] struct {
	p  *provider
	mu sync.RWMutex
	c  T // a pointer; nil: destroyed
}

// do calls f, which returns a count or a negative errno.
func do[T comparable, R ~int32](h *handle[T], f func(c T) R) (int, error) {
	h.p.others.Add(1)
	return hold(h, f)
}

// hold is like do, for a call that is counted elsewhere.
func hold[T comparable, R ~int32](h *handle[T], f func(c T) R) (int, error) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if ended := *new(T); h.c == ended {
		return 0, verbs.ErrClosed
	}
	return result(f(h.c))
}

// end calls f to destroy the object. If f succeeds, no more calls are possible.
func end[T comparable, R ~int32](h *handle[T], f func(c T) R) error {
	h.p.others.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	ended := *new(T)
	if h.c == ended {
		return verbs.ErrClosed
	}
	_, err := result(f(h.c))
	if err == nil {
		h.c = ended
	}
	return err
}

func result[R ~int32](rc R) (int, error) {
	if rc < 0 {
		return 0, syscall.Errno(-rc)
	}
	return int(rc), nil
}

// waiter is a file descriptor that the netpoller watches.
type waiter struct {
	file *os.File
	raw  syscall.RawConn
}

// newWaiter creates a waiter that owns fd, which is in non-blocking mode. If fd is a negative errno it
// returns the error.
func newWaiter[R ~int32](fd R, name string) (w waiter, err error) {
	if fd < 0 {
		return w, syscall.Errno(-fd)
	}
	w.file = os.NewFile(uintptr(fd), name)
	w.raw, err = w.file.SyscallConn()
	return w, err
}

// wait calls harvest until that returns true, and waits in between until the descriptor is readable. It
// returns an error only if the descriptor was closed.
func (w *waiter) wait(harvest func(fd uintptr) bool) error {
	if err := w.raw.Read(harvest); err != nil {
		return verbs.ErrClosed
	}
	return nil
}

// end makes wait return.
func (w *waiter) end() { _ = w.file.Close() }
