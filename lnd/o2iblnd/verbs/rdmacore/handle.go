//go:build o2ib && cgo

package rdmacore

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
)

// handle is a C object, with the lock that prevents its destruction during calls on it.
type handle[T comparable] struct {
	p  *provider
	mu sync.RWMutex
	c  T // a pointer to the object; nil after its destruction
}

// do calls f with the object, and counts a crossing. f returns a count or a negative errno. do returns
// verbs.ErrClosed if the object is destroyed.
func do[T comparable, R ~int32](h *handle[T], f func(c T) R) (int, error) {
	h.p.others.Add(1)
	return hold(h, f)
}

// hold is do for a call that is counted elsewhere.
func hold[T comparable, R ~int32](h *handle[T], f func(c T) R) (int, error) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if ended := *new(T); h.c == ended {
		return 0, verbs.ErrClosed
	}
	return result(f(h.c))
}

// end calls f to destroy the object. If f succeeds, later calls on the object return verbs.ErrClosed.
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

// result returns the count or the errno that rc contains.
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

// newWaiter returns a waiter for the descriptor fd, which must be in non-blocking mode and belongs to the
// waiter. If fd is a negative errno, it returns this error.
func newWaiter[R ~int32](fd R, name string) (w waiter, err error) {
	if fd < 0 {
		return w, syscall.Errno(-fd)
	}
	w.file = os.NewFile(uintptr(fd), name)
	w.raw, err = w.file.SyscallConn()
	return w, err
}

// wait calls harvest, and again whenever the descriptor becomes readable, until harvest returns true. It returns
// os.ErrDeadlineExceeded after the time of expire, and verbs.ErrClosed if the descriptor is closed.
func (w *waiter) wait(harvest func(fd uintptr) bool) error {
	err := w.raw.Read(harvest)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return verbs.ErrClosed
	}
	return err
}

// expire makes wait return at the given time. The zero time means never.
func (w *waiter) expire(at time.Time) { _ = w.file.SetReadDeadline(at) } // fails only if the descriptor is closed

// end closes the descriptor, which makes wait return.
func (w *waiter) end() { _ = w.file.Close() }
