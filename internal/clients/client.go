package clients

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/transport/completion"
	"github.com/lnetd/lnetd/transport/remote/protocol"
)

// client is one connection, which is a domain of its own.
type client struct {
	server  *Server
	id      uint64
	conn    wire
	process Process
	rule    *Rule
	since   time.Time
	// ctx ends when the client is cut off, or has gone.
	ctx    context.Context
	cancel context.CancelFunc

	// What follows is for the goroutine of the connection. Refusal is what its HELLO is
	// answered, if it is not nil.
	refusal  error
	turn     time.Duration // how long it has to wait before it is listened to
	pace     pace
	features protocol.Features
	size     uint32 // of descriptors, as the client knows it
	past     protocol.Counters

	domain  completion.Domain // nil before HELLO
	limits  protocol.Limits
	buffers buffers

	mu sync.Mutex // guards the rest; the goroutine of the connection alone changes the tables
	// reason is why the client is cut off, nil if it is not.
	reason   error
	program  string
	ending   bool
	used     amounts
	areas    areas
	tms      []*tm // by handle; nil: none has it
	requests uint64
	done     tally // by TMs that are gone
}

// tell logs something about the client, bounded for each process.
func (c *client) tell(level slog.Level, text string, attrs ...slog.Attr) {
	c.mu.Lock()
	program := c.program
	c.mu.Unlock()
	log := c.server.log.With("client", c.id, "program", program, "uid", c.process.UID, "gid", c.process.GID)
	log.Tell(boundedlog.Line{Level: level, Text: text, Of: boundedlog.About("pid", strconv.Itoa(int(c.process.PID)))}, attrs...)
}

// cutOff ends the connection, for a reason that the client is told of: the first one. When it
// returns the client can read that, and gets no other record. It does not block, and may be
// called by anybody.
func (c *client) cutOff(reason error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reason != nil {
		return
	}
	n := protocol.CutOff(reason)
	_ = c.conn.put(protocol.AppendNotice(nil, &n), nil) // it is gone, or does not read
	c.reason = reason
	c.cancel()
	_ = c.conn.SetDeadline(time.Unix(1, 0)) // fails if it was closed
}

// violation is a reason to cut a client off that has broken the rules.
func violation(format string, a ...any) error {
	return fmt.Errorf(format+": %w", append(a, syscall.EPROTO)...)
}

// serve answers the client until it ends, and clears up.
func (c *client) serve() {
	err := c.converse()
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, unix.ECONNRESET), errors.Is(err, unix.EPIPE):
	case c.domain == nil && isTimeout(err):
		c.cutOff(fmt.Errorf("no HELLO within %v: %w", c.server.config.HelloTime, syscall.ETIMEDOUT))
	default:
		c.cutOff(err)
	}
	c.cancel()
	_ = c.conn.CloseRead() // fails if the client is gone
	c.clear()
}

// converse answers requests, one after the other. It returns why there are no more.
func (c *client) converse() error {
	if err := c.queue(); err != nil {
		return err
	}
	if err := c.conn.SetReadDeadline(time.Now().Add(c.server.config.HelloTime)); err != nil {
		return err
	}
	for {
		record, fds, err := c.receive()
		if err != nil {
			return err
		}
		err = c.handle(*record, fds)
		c.server.records.Put(record)
		if err != nil {
			return err
		}
		if err := c.rest(); err != nil {
			return err
		}
	}
}

// queue waits until it is the client's turn to be listened to. io.EOF: it has not waited.
func (c *client) queue() error {
	const look = 50 * time.Millisecond
	for left := c.turn; left > 0; left -= look {
		if err := c.sleep(min(left, look)); err != nil {
			return err
		}
		if c.conn.hungUp() {
			return io.EOF
		}
	}
	return nil
}

// rest waits if the client asks too much.
func (c *client) rest() error { return c.sleep(c.pace.next(time.Now())) }

// sleep waits, or until the client is cut off.
func (c *client) sleep(wait time.Duration) error {
	if wait == 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
}

// controlSize is room for what goes along with a record: more descriptors than any has.
var controlSize = unix.CmsgSpace(8 * 4)

// receive waits for the next record, which the caller gives back to server.records, and
// takes the descriptors that came with it, which are the caller's. On an error there are
// none. io.EOF: the client has closed the connection, or sent a record of nothing.
func (c *client) receive() (record *[]byte, fds []int, err error) {
	var flags int
	var inner error
	err = c.conn.await(func(fd int) bool {
		record = c.server.records.Get().(*[]byte)
		control := make([]byte, controlSize)
		var n, controls int
		*record = (*record)[:cap(*record)]
		for {
			n, controls, flags, _, inner = unix.Recvmsg(fd, *record, control, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
			if !errors.Is(inner, unix.EINTR) {
				break
			}
		}
		if inner != nil {
			c.server.records.Put(record)
			record = nil
			return !errors.Is(inner, unix.EAGAIN)
		}
		*record = (*record)[:n]
		var bad error
		if fds, bad = descriptors(control[:controls]); bad != nil {
			inner = violation("control message: %v", bad)
		}
		return true
	})
	switch {
	case err != nil:
	case inner != nil:
		err = inner
	case flags&unix.MSG_CTRUNC != 0:
		err = violation("too many descriptors with a record")
	case len(*record) > protocol.MaxRecord || flags&unix.MSG_TRUNC != 0:
		err = violation("a record of more than %d bytes", protocol.MaxRecord)
	case len(*record) == 0:
		err = io.EOF
	}
	if err != nil {
		closeAll(fds)
		if record != nil {
			c.server.records.Put(record)
		}
		return nil, nil, err
	}
	return record, fds, nil
}

// descriptors are those in control messages.
func descriptors(control []byte) (fds []int, err error) {
	messages, err := unix.ParseSocketControlMessage(control)
	for i := range messages {
		rights, e := unix.ParseUnixRights(&messages[i])
		if e != nil {
			err = e
			continue
		}
		fds = append(fds, rights...)
	}
	return fds, err
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

// send writes a record, with descriptors, which stay the caller's. It waits for a client
// that does not read, for a while.
func (c *client) send(record []byte, fds ...int) error {
	var control []byte
	if len(fds) > 0 {
		control = unix.UnixRights(fds...)
	}
	c.mu.Lock()
	if c.reason == nil {
		_ = c.conn.SetWriteDeadline(time.Now().Add(c.server.config.HelloTime)) // the write says it
	}
	c.mu.Unlock()
	var inner error
	err := c.conn.write(func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		if inner = c.reason; inner == nil {
			inner = c.conn.put(record, control)
		}
		return !errors.Is(inner, unix.EAGAIN)
	})
	switch {
	case err == nil:
		return inner
	case isTimeout(err):
		return violation("it does not read what it is answered")
	}
	return err
}

func isTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

// notify sends a notice if that needs no wait, else not at all.
func (c *client) notify(n protocol.Notice) {
	record := protocol.AppendNotice(nil, &n)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reason == nil {
		_ = c.conn.put(record, nil) // it is gone, or does not read
	}
}

// hangUp closes the connection, if it is not closed. What a client that is cut off has sent
// and nobody has read is read first: otherwise the kernel would tell the client of that, and
// not of the reason.
func (c *client) hangUp() {
	c.mu.Lock()
	reason := c.reason
	c.mu.Unlock()
	if reason != nil {
		_ = c.conn.SetReadDeadline(time.Time{})
		for {
			record, fds, err := c.receive()
			closeAll(fds)
			if record != nil {
				c.server.records.Put(record)
			}
			if err != nil && !errors.Is(err, syscall.EPROTO) {
				break
			}
		}
	}
	_ = c.conn.Close()
}
