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

// client is one connection of a process. Each connection has its own domain.
type client struct {
	server  *Server
	id      uint64
	conn    wire
	process Process
	rule    *Rule
	since   time.Time
	// ctx is canceled when the client is disconnected or has closed the connection.
	ctx    context.Context
	cancel context.CancelFunc

	// Only the connection's goroutine uses the fields below. If refusal is not nil, the client may not
	// use lnetd, and gets refusal as the answer to HELLO.
	refusal      error
	initialDelay time.Duration // how long to wait before reading the first request
	requestRate  rateLimit
	features     protocol.Features
	size         uint32            // size of descriptors that was last reported to the client
	reported     protocol.Counters // sums of the counters of stopped TMs

	usage   amounts           // resources charged to the connection; users.mu guards it
	domain  completion.Domain // nil before HELLO
	limits  protocol.Limits
	buffers buffers

	mu sync.Mutex // guards the fields below; only the connection's goroutine changes the tables
	// reason is why lnetd has disconnected the client. It is nil if lnetd has not.
	reason     error
	program    string
	ending     bool // the connection has ended, and its resources are being released
	areas      areas
	tms        []*tm // indexed by handle; nil if the handle is unused
	requests   uint64
	stoppedTMs tally // sums of the counters of stopped TMs
}

// log logs a message about the client. The number of messages about one process is limited.
func (c *client) log(level slog.Level, text string, attrs ...slog.Attr) {
	c.identified().Report(boundedlog.Line{Level: level, Text: text, Of: c.subject()}, attrs...)
}

// note passes an event of the client to the watcher of the log only.
func (c *client) note(text string) {
	if c.server.log.Watched() {
		c.identified().Note(boundedlog.Line{Level: slog.LevelInfo, Text: text, Of: c.subject()})
	}
}

// identified returns the log with attributes that identify the client.
func (c *client) identified() *boundedlog.Log {
	c.mu.Lock()
	program := c.program
	c.mu.Unlock()
	return c.server.log.With("client", c.id, "program", program, "uid", c.process.UID, "gid", c.process.GID)
}

// subject returns the subject of lines about the client.
func (c *client) subject() boundedlog.Subject {
	return boundedlog.About("pid", strconv.Itoa(int(c.process.PID)))
}

// cutOff disconnects the client and sends it the reason. When cutOff returns, the client can read the
// reason, and nothing more is sent to it. Later calls have no effect. cutOff does not block and is safe
// for concurrent use.
func (c *client) cutOff(reason error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reason != nil {
		return
	}
	n := protocol.CutOff(reason)
	_ = c.conn.put(protocol.AppendNotice(nil, &n), nil) // the client has closed the connection or does not read
	c.reason = reason
	c.cancel()
	_ = c.conn.SetDeadline(time.Unix(1, 0)) // ends all waits; fails only if the connection is closed
}

// violation returns an EPROTO error, which is the reason to disconnect a client that has violated the
// protocol.
func violation(format string, a ...any) error {
	return fmt.Errorf(format+": %w", append(a, syscall.EPROTO)...)
}

// serve answers the client's requests until the connection ends, and then releases all resources of the
// client.
func (c *client) serve() {
	err := c.serveRequests()
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, unix.ECONNRESET), errors.Is(err, unix.EPIPE):
	case c.domain == nil && isTimeout(err):
		c.cutOff(fmt.Errorf("no HELLO was received within %v: %w", c.server.config.HelloTime, syscall.ETIMEDOUT))
	default:
		c.cutOff(err)
	}
	c.cancel()
	_ = c.conn.CloseRead() // fails if the client has closed the connection
	c.releaseAll()
}

// serveRequests answers requests one by one until the connection ends. The error is the reason for the
// end: io.EOF if the client has closed the connection.
func (c *client) serveRequests() error {
	if err := c.delayConnection(); err != nil {
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
		if err := c.limitRequests(); err != nil {
			return err
		}
	}
}

// delayConnection waits for initialDelay, because the user has made connections too fast. It returns
// io.EOF if the client closes the connection meanwhile.
func (c *client) delayConnection() error {
	const look = 50 * time.Millisecond
	for left := c.initialDelay; left > 0; left -= look {
		if err := c.sleep(min(left, look)); err != nil {
			return err
		}
		if c.conn.hungUp() {
			return io.EOF
		}
	}
	return nil
}

// limitRequests counts a request and, if the client sends more requests per second than its quota, waits
// before the next one is read.
func (c *client) limitRequests() error { return c.sleep(c.requestRate.next(time.Now())) }

// sleep waits for a duration. If the client is disconnected before, it returns an error.
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

// controlSize is the size of the buffer for the control messages of a record. It suffices for more
// descriptors than a valid record has.
var controlSize = unix.CmsgSpace(8 * 4)

// receive waits for the next record and returns it with its descriptors. The caller must close the
// descriptors and return the record to server.records. If receive returns an error, it returns neither
// descriptors nor a record. io.EOF means that the client has closed the connection or sent an empty
// record.
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
			inner = violation("socket control message of a record: %v", bad)
		}
		return true
	})
	switch {
	case err != nil:
	case inner != nil:
		err = inner
	case flags&unix.MSG_CTRUNC != 0:
		err = violation("a record of the client has too many file descriptors")
	case len(*record) > protocol.MaxRecord || flags&unix.MSG_TRUNC != 0:
		err = violation("a record of the client is longer than %d bytes", protocol.MaxRecord)
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

// descriptors returns the file descriptors in control messages. If it returns an error, it also returns
// the descriptors that it has found, which the caller must close.
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

// send sends a record with descriptors to the client. The caller must still close the descriptors. If the
// client does not read, send waits for at most Config.HelloTime.
func (c *client) send(record []byte, fds ...int) error {
	var control []byte
	if len(fds) > 0 {
		control = unix.UnixRights(fds...)
	}
	c.mu.Lock()
	if c.reason == nil {
		_ = c.conn.SetWriteDeadline(time.Now().Add(c.server.config.HelloTime)) // if this fails, the write fails too
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
		return violation("the client does not read its replies")
	}
	return err
}

func isTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

// notify sends a notice to the client. If the client has no room for it, notify discards the notice
// instead of blocking.
func (c *client) notify(n protocol.Notice) {
	record := protocol.AppendNotice(nil, &n)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reason == nil {
		_ = c.conn.put(record, nil) // the client has closed the connection or does not read
	}
}

// closeConnection closes the connection. If lnetd has disconnected the client, closeConnection first reads
// all records that the client has sent. If unread records remained, the kernel would report a reset to the
// client, which could not read the reason then.
func (c *client) closeConnection() {
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
