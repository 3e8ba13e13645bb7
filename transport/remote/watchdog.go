package remote

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/transport/remote/protocol"
)

// requestAlways is like request, but has no context. It blocks until lnetd answers, until the connection
// ends, or until the watchdog ends the connection because lnetd has been silent.
func (c *connection) requestAlways(r protocol.Request, reply protocol.Body) error {
	defer c.startWatchdog().stop()
	return c.request(context.Background(), r, reply, nil)
}

// waitAllUndone waits until the calls that are abandoned now have failed or been undone, or until the
// connection ends. A watchdog ends the connection if lnetd is silent.
func (c *connection) waitAllUndone() {
	defer c.startWatchdog().stop()
	_ = c.waitUndone(context.Background()) // the context never ends
}

// watchdog ends a connection on which nothing arrives for connection.patience. It notices this after at most
// twice that time. Any received record counts, so a request that waits behind others does not end the
// connection. If this process was suspended, the records that lnetd has sent are still unread, which the
// watchdog also counts as a sign of life.
type watchdog struct {
	connection *connection

	mu           sync.Mutex // guards the fields below
	timer        *time.Timer
	lastReceived uint64 // value of connection.recordsReceived at the last check
	stopped      bool
}

// startWatchdog starts a watchdog. The caller must stop it.
func (c *connection) startWatchdog() *watchdog {
	w := &watchdog{connection: c, lastReceived: c.recordsReceived.Load()}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(c.patience, w.check)
	return w
}

// check ends the connection if lnetd has sent nothing since the previous check. Otherwise it schedules the
// next check.
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

// ensureNop sends a NOP, unless the previous one is unanswered or all slots are in use. A working lnetd
// answers it. ensureNop does not block.
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
		return // other requests are outstanding, and lnetd must answer them as well
	}
	a, err := c.sendIn(&protocol.Nop{}, nil)
	if err != nil {
		return // the reading goroutine reports the error
	}
	c.mu.Lock()
	c.nop = a
	c.mu.Unlock()
}

// readable reports whether the socket contains data that were not read yet.
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

// stop stops the watchdog. After stop has returned, the watchdog does not end the connection.
func (w *watchdog) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	w.timer.Stop()
}
