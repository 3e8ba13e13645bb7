//go:build o2ib && cgo

package rdmacore

import (
	"os"
	"sync"
	"syscall"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
)

// handle is an object of C's, which is not ended during its calls.
type handle[T comparable] struct {
	p  *provider
	mu sync.RWMutex
	c  T // a pointer; nil: ended
}

// do calls f, whose result is a count or a negative errno.
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

// end calls f, and if that succeeds it was the last call.
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

// newWaiter takes over fd, which is in non-blocking mode, unless it is an errno.
func newWaiter[R ~int32](fd R, name string) (w waiter, err error) {
	if fd < 0 {
		return w, syscall.Errno(-fd)
	}
	w.file = os.NewFile(uintptr(fd), name)
	w.raw, err = w.file.SyscallConn()
	return w, err
}

// wait calls harvest until it has something, and in between until there is something to read. The one
// error is that the descriptor was closed.
func (w *waiter) wait(harvest func(fd uintptr) bool) error {
	if err := w.raw.Read(harvest); err != nil {
		return verbs.ErrClosed
	}
	return nil
}

// end has a wait end.
func (w *waiter) end() { _ = w.file.Close() }
