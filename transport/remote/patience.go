package remote

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/transport/remote/protocol"
)

// insist is ask without a context. It blocks until lnetd answers, is gone, or is given up because it is
// silent.
func (c *connection) insist(r protocol.Request, reply protocol.Body) error {
	defer c.watch().stop()
	return c.ask(context.Background(), r, reply, nil)
}

// settleAll waits until the calls abandoned so far have been undone, or the connection has ended or is
// given up.
func (c *connection) settleAll() {
	defer c.watch().stop()
	_ = c.settle(context.Background()) // the context never ends
}

// watch gives a connection up if nothing arrives for its patience, or at most twice that time. Any received
// record counts, so waiting behind other requests is not an error. Neither is a suspension of this process,
// which leaves received records unread.
type watch struct {
	connection *connection

	mu    sync.Mutex // guards the fields below
	timer *time.Timer
	heard uint64 // value of connection.heard at the last check
	over  bool
}

// watch starts a watch.
func (c *connection) watch() *watch {
	w := &watch{connection: c, heard: c.heard.Load()}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(c.patience, w.look)
	return w
}

// look checks whether lnetd has sent anything, and schedules the next check.
func (w *watch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch heard := w.connection.heard.Load(); {
	case w.over:
	case heard == w.heard && !w.connection.readable():
		w.connection.fail(silent(w.connection.patience))
	default:
		w.heard = heard
		w.timer.Reset(w.connection.patience)
	}
}

// sound ensures that a NOP is outstanding, which lnetd answers if it is alive. It does not block.
func (c *connection) sound() {
	c.mu.Lock()
	last := c.nop
	c.mu.Unlock()
	if last != nil {
		select {
		case <-last.done:
		default:
			return
		}
	}
	select {
	case c.slots <- struct{}{}:
	default:
		return // other requests are outstanding
	}
	a, err := c.sendIn(&protocol.Nop{}, nil)
	if err != nil {
		return // the reader reports the error
	}
	c.mu.Lock()
	c.nop = a
	c.mu.Unlock()
}

// readable reports whether the socket has unread data.
func (c *connection) readable() bool {
	raw, err := c.socket.SyscallConn()
	if err != nil {
		return false
	}
	n := 0
	err = raw.Control(func(fd uintptr) {
		n, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	})
	return err == nil && n > 0
}

// stop ends the watch. The connection is not given up by this watch afterwards.
func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.timer.Stop()
}
