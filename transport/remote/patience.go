package remote

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/transport/remote/protocol"
)

// insist is ask for who has no context: it blocks until lnetd answers, is gone, or is given
// up since it says nothing.
func (c *connection) insist(r protocol.Request, reply protocol.Body) error {
	defer c.watch().stop()
	return c.ask(context.Background(), r, reply, nil)
}

// settleAll waits until what was abandoned so far has been undone, or the connection is gone,
// or given up since lnetd says nothing.
func (c *connection) settleAll() {
	defer c.watch().stop()
	_ = c.settle(context.Background()) // which does not end
}

// watch gives a connection up on which nothing comes for as long as its patience, and twice
// that at most. That one of many requests waits long for its turn is no reason, nor is that
// this process has slept, and not read what has come.
type watch struct {
	connection *connection

	mu    sync.Mutex // guards the rest
	timer *time.Timer
	heard uint64 // when it last looked
	over  bool
}

// watch begins to.
func (c *connection) watch() *watch {
	w := &watch{connection: c, heard: c.heard.Load()}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(c.patience, w.look)
	return w
}

// look looks whether there is a sign of life, and when to look again.
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

// sound has a NOP under way, which lnetd answers if it is alive. It does not block.
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
		return // lnetd has other questions to answer
	}
	a, err := c.sendIn(&protocol.Nop{}, nil)
	if err != nil {
		return // the reader finds it, too
	}
	c.mu.Lock()
	c.nop = a
	c.mu.Unlock()
}

// readable tells whether something has come that nobody has read.
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

// stop ends it. Nothing is given up behind that.
func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.timer.Stop()
}
