package remote

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/transport/remote/protocol"
)

// requestAlways is request without a context. It blocks until lnetd answers, closes the connection, or is
// silent for so long that the watchdog gives up.
func (c *connection) requestAlways(r protocol.Request, reply protocol.Body) error {
	defer c.startWatchdog().stop()
	return c.request(context.Background(), r, reply, nil)
}

// waitAllUndone waits until the calls abandoned so far have been undone, or the connection has ended or is
// given up.
func (c *connection) waitAllUndone() {
	defer c.startWatchdog().stop()
	_ = c.waitUndone(context.Background()) // the context never ends
}

// watchdog gives a connection up if nothing arrives for its patience, or at most twice that time. Any received
// record counts, so waiting behind other requests is not an error. Neither is a suspension of this process,
// which leaves received records unread.
type watchdog struct {
	connection *connection

	mu           sync.Mutex // guards the fields below
	timer        *time.Timer
	lastReceived uint64 // value of connection.recordsReceived at the last check
	stopped      bool
}

// startWatchdog starts a watchdog.
func (c *connection) startWatchdog() *watchdog {
	w := &watchdog{connection: c, lastReceived: c.recordsReceived.Load()}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(c.patience, w.check)
	return w
}

// check checks whether lnetd has sent anything, and schedules the next check.
func (w *watchdog) check() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch heard := w.connection.recordsReceived.Load(); {
	case w.stopped:
	case heard == w.lastReceived && !w.connection.readable():
		w.connection.fail(silentError(w.connection.patience))
	default:
		w.lastReceived = heard
		w.timer.Reset(w.connection.patience)
	}
}

// ensureNop ensures that a NOP is outstanding, which lnetd answers if it is alive. It does not block.
func (c *connection) ensureNop() {
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

// stop ends the watchdog. It does not give the connection up afterwards.
func (w *watchdog) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	w.timer.Stop()
}
