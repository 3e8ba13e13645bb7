package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/transport/remote/protocol"
)

// connection is the control socket, which connects a domain to lnetd. It carries requests, their replies, and
// notices (transport 9.1, 9.2). Any goroutine may send requests.
//
// A call is abandoned if its caller returns before the reply arrives, because the caller's context has ended.
// If lnetd carries out the request nevertheless, the call is undone: another request reverts its effect.
type connection struct {
	socket *net.UnixConn
	// notice is called for each notice of lnetd. onLost is called once, with the reason, when the connection
	// has ended. The reading goroutine calls both.
	notice func(n *protocol.Notice)
	onLost func(err error)
	// slots has an element for each outstanding request, and so limits their number. That many requests fit
	// in the socket's buffer, so sending a request does not block.
	slots chan struct{}
	// patience is how long lnetd may send nothing before requestAlways ends the connection. recordsReceived
	// counts the records received, and requests those sent.
	patience        time.Duration
	recordsReceived atomic.Uint64
	requests        atomic.Uint64
	reader          sync.WaitGroup
	undoCalls       sync.WaitGroup

	mu           sync.Mutex // guards the fields below
	sequence     uint32
	calls        map[uint32]*call
	nop          *call                      // the last NOP that ensureNop has sent
	pendingUndos map[chan struct{}]struct{} // one channel for each abandoned call; closed when the call has failed or been undone
	lastNotice   *protocol.Notice           // the last notice about the end of the connection
	failure      error                      // why this side has ended the connection; nil if it has not
	endError     error                      // why no more replies will follow; nil while the connection works
}

// call is a request. body, fds and err are its result; they may be read when done is closed.
type call struct {
	opcode protocol.Opcode
	done   chan struct{}
	body   []byte
	fds    []int // received descriptors, owned by the waiting caller
	// fdsLost means that lnetd has carried out the request, but this process has too many open files for the
	// descriptors of the reply. Then fds is empty.
	fdsLost bool
	err     error
}

// newConnection returns a connection on socket. The caller must call start before it sends requests.
func newConnection(socket *net.UnixConn, patience time.Duration, notice func(n *protocol.Notice), lost func(err error)) *connection {
	return &connection{
		socket: socket, notice: notice, onLost: lost, slots: make(chan struct{}, protocol.MaxOutstanding),
		patience: patience,
		calls:    make(map[uint32]*call), pendingUndos: make(map[chan struct{}]struct{}),
	}
}

// start starts the goroutine that reads replies and notices.
func (c *connection) start() { c.reader.Go(c.read) }

// request sends a request, waits for the reply, and decodes the reply. It may block until ctx ends. If ctx ends
// first but lnetd carries out the request later, undo is called in another goroutine, unless it is nil. If
// lnetd is gone, the error matches EPIPE. If lnetd refuses the request, the error is a *protocol.Failure.
func (c *connection) request(ctx context.Context, r protocol.Request, reply protocol.Body, undo func(a *call), fds ...int) error {
	a, err := c.call(ctx, r, undo, fds...)
	if err != nil {
		return err
	}
	return c.decode(a, reply)
}

// call is like request, but returns the reply without decoding it.
func (c *connection) call(ctx context.Context, r protocol.Request, undo func(a *call), fds ...int) (*call, error) {
	a, err := c.send(ctx, r, fds)
	if err != nil {
		return nil, err
	}
	select {
	case <-a.done:
	case <-ctx.Done():
		c.abandon(a, undo)
		return nil, fmt.Errorf("remote: %v: %w", r.Opcode(), ctx.Err())
	}
	if a.err != nil {
		return nil, a.err
	}
	return a, nil
}

// decode decodes the reply to a call. If the reply is invalid, decode ends the connection.
func (c *connection) decode(a *call, reply protocol.Body) error {
	err := reply.Decode(a.body)
	if err != nil {
		err = fmt.Errorf("remote: reply to %v: %w: %w", a.opcode, err, syscall.EPROTO)
		c.fail(err)
	}
	return err
}

// send acquires a slot and sends a request. It does not wait for the reply.
func (c *connection) send(ctx context.Context, r protocol.Request, fds []int) (*call, error) {
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("remote: %v: %w", r.Opcode(), ctx.Err())
	}
	return c.sendIn(r, fds)
}

// sendIn is like send, but for a caller that has already acquired a slot.
func (c *connection) sendIn(r protocol.Request, fds []int) (*call, error) {
	a := &call{opcode: r.Opcode(), done: make(chan struct{})}
	c.mu.Lock()
	if c.endError != nil {
		err := c.endError
		c.mu.Unlock()
		<-c.slots
		return nil, err
	}
	c.sequence++
	n := c.sequence
	c.calls[n] = a
	c.mu.Unlock()
	record, err := protocol.AppendRequest(nil, n, r)
	if err != nil {
		c.removeCall(n)
		return nil, fmt.Errorf("remote: %w", err)
	}
	c.requests.Add(1)
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	// If lnetd is gone, the reading goroutine notices it as well, and completes the call with a better error.
	_, _, err = c.socket.WriteMsgUnix(record, rights, nil)
	if err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, net.ErrClosed) {
		c.removeCall(n)
		return nil, fmt.Errorf("remote: %v: %w", a.opcode, err)
	}
	return a, nil
}

// removeCall removes a call that could not be sent, and releases its slot.
func (c *connection) removeCall(sequence uint32) {
	c.mu.Lock()
	_, waits := c.calls[sequence]
	delete(c.calls, sequence)
	c.mu.Unlock()
	if waits { // otherwise the end of the connection has released the slot
		<-c.slots
	}
}

// abandon starts a goroutine that waits for the end of an abandoned call. If lnetd has carried out the
// request, the goroutine calls undo, unless it is nil.
func (c *connection) abandon(a *call, undo func(a *call)) {
	done := make(chan struct{})
	c.mu.Lock()
	c.pendingUndos[done] = struct{}{}
	c.mu.Unlock()
	c.undoCalls.Go(func() {
		<-a.done
		if a.err == nil && undo != nil {
			undo(a)
		}
		closeAll(a.fds)
		c.mu.Lock()
		delete(c.pendingUndos, done)
		c.mu.Unlock()
		close(done)
	})
}

// waitUndone waits until the calls that are abandoned now have failed or been undone, or until ctx ends.
func (c *connection) waitUndone(ctx context.Context) error {
	c.mu.Lock()
	waits := make([]chan struct{}, 0, len(c.pendingUndos))
	for done := range c.pendingUndos {
		waits = append(waits, done)
	}
	c.mu.Unlock()
	for _, done := range waits {
		select {
		case <-done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// fail ends the connection. err is the reason, such as invalid data from lnetd; the first reason is kept.
func (c *connection) fail(err error) {
	c.mu.Lock()
	if c.failure == nil {
		c.failure = err
	}
	c.mu.Unlock()
	_ = c.socket.Close() // may be closed already
}

// close ends the connection, and waits for its goroutines.
func (c *connection) close() {
	c.fail(errClosed)
	c.reader.Wait()
	c.undoCalls.Wait()
}

// maxFDs is the number of descriptors in one record that read has room for. lnetd never sends more.
const maxFDs = 4

// read is the reading goroutine. It reads and dispatches records until the connection ends.
func (c *connection) read() {
	record := make([]byte, protocol.MaxRecord+1)
	control := make([]byte, unix.CmsgSpace(4*maxFDs))
	for ended := false; ; {
		n, m, flags, _, err := c.socket.ReadMsgUnix(record, control)
		if errors.Is(err, syscall.ECONNRESET) {
			continue // lnetd closed the socket with unread requests; its records can still be read
		}
		if errors.Is(err, io.EOF) && m == 0 && !ended {
			ended = true
			continue // Linux checks for data first and then for the end, and data may arrive in between
		}
		fds, bad := unixRights(control[:m])
		if err != nil {
			closeAll(fds) // an empty record looks like the end, but may carry descriptors
			c.end(err)
			return
		}
		// The kernel also truncates descriptors if this process has too many open files.
		fdsLost := flags&unix.MSG_CTRUNC != 0
		if err = bad; err == nil && (flags&unix.MSG_TRUNC != 0 || fdsLost && len(fds) == maxFDs) {
			err = errTruncated
		}
		if err == nil {
			err = c.dispatch(record[:n], fds, fdsLost)
		}
		if err != nil {
			closeAll(fds)
			c.end(fmt.Errorf("remote: lnetd violated the protocol: %w", err))
			return
		}
	}
}

// unixRights returns the file descriptors in a control message. The caller owns them even if err is not nil.
func unixRights(control []byte) (fds []int, err error) {
	messages, err := unix.ParseSocketControlMessage(control)
	for i := range messages {
		more, e := unix.ParseUnixRights(&messages[i])
		if e != nil {
			err = os.NewSyscallError("parse rights", e)
		}
		fds = append(fds, more...)
	}
	return fds, err
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

// dispatch passes a record to the call that it answers, or to handleNotice. fdsLost means that lnetd has sent
// more descriptors. If dispatch returns nil, it has taken ownership of the descriptors.
func (c *connection) dispatch(record []byte, fds []int, fdsLost bool) error {
	h, body, err := protocol.DecodeReply(record)
	if err != nil {
		return err
	}
	c.recordsReceived.Add(1)
	wanted := 0
	if h.Opcode != protocol.OpNotice && h.Status == 0 {
		wanted = h.Opcode.ReplyFDs()
	}
	if len(fds) > wanted || fdsLost != (len(fds) < wanted) {
		return fmt.Errorf("remote: lnetd sent an unexpected number of %d file descriptors with %v: %w", len(fds), h.Opcode, syscall.EPROTO)
	}
	if h.Opcode == protocol.OpNotice {
		return c.handleNotice(body)
	}
	c.mu.Lock()
	a := c.calls[h.Sequence]
	if a == nil || a.opcode != h.Opcode {
		c.mu.Unlock()
		return fmt.Errorf("remote: lnetd sent a reply without a request, %v number %d: %w", h.Opcode, h.Sequence, syscall.EPROTO)
	}
	delete(c.calls, h.Sequence)
	c.mu.Unlock()
	if fdsLost {
		closeAll(fds)
		fds = nil
	}
	a.body, a.fds, a.fdsLost, a.err = append([]byte(nil), body...), fds, fdsLost, h.Failure(body)
	close(a.done)
	<-c.slots
	return nil
}

// endReason returns the reason why the connection has ended, or nil.
func (c *connection) endReason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.endError
}

// handleNotice decodes a notice and passes it to c.notice. It remembers notices about the end of lnetd or of
// this connection.
func (c *connection) handleNotice(body []byte) error {
	n := new(protocol.Notice)
	if err := n.Decode(body); err != nil {
		return err
	}
	if n.Kind == protocol.NoticeCutOff || n.Kind == protocol.NoticeGoingDown {
		c.mu.Lock()
		c.lastNotice = n
		c.mu.Unlock()
	}
	c.notice(n)
	return nil
}

// end ends the connection: it completes all outstanding calls with an error, makes later calls fail, and
// calls onLost. err is the reason why reading has ended.
func (c *connection) end(err error) {
	_ = c.socket.Close() // may be closed already
	c.mu.Lock()
	switch {
	case c.failure != nil:
		err = c.failure
	case errors.Is(err, io.EOF):
		err = nil
	}
	c.endError = endOfConnection(c.lastNotice, err)
	calls, gone := c.calls, c.endError
	c.calls = nil
	c.mu.Unlock()
	for _, a := range calls {
		a.err = gone
		close(a.done)
		<-c.slots
	}
	c.onLost(gone)
}
