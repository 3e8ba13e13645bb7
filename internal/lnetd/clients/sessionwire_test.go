package clients

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/transport/remote/protocol"
)

// socketWire is a sessionWire over a socket.
type socketWire struct {
	conn   *net.UnixConn
	buffer []byte
}

func (s *socketWire) send(record []byte, fds []int) error {
	var control []byte
	if len(fds) > 0 {
		control = unix.UnixRights(fds...)
	}
	_, _, err := s.conn.WriteMsgUnix(record, control, nil)
	return err
}

func (s *socketWire) read() (h protocol.Header, body []byte, fds []int, err error) {
	var control [256]byte
	_ = s.conn.SetReadDeadline(time.Now().Add(patience))
	n, m, _, _, err := s.conn.ReadMsgUnix(s.buffer, control[:])
	if errors.Is(err, syscall.ECONNRESET) {
		return s.read() // the reason can still be read
	}
	if err != nil {
		return h, nil, nil, err
	}
	fds, err = descriptors(control[:m])
	if err == nil {
		h, body, err = protocol.DecodeReply(s.buffer[:n])
	}
	return h, body, fds, err
}

func (*socketWire) ring(bell int) { _, _ = unix.Write(bell, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }

func (s *socketWire) close() { _ = s.conn.Close() }

// directWire is both ends of a connection without a socket. The call that sends a record also processes
// it.
type directWire struct {
	c *client

	mu      sync.Mutex     // guards records: a TM that polls its ring may disconnect the client
	records []directRecord // from the server, not yet read by the client
}

type directRecord struct {
	bytes []byte
	fds   []int
}

var _ wire = (*directWire)(nil)

// newDirectWire returns the wire of a new client of s.
func newDirectWire(s *Server, p Process) *directWire {
	d := &directWire{}
	d.c = s.newClient(d, p)
	d.c.refusal = s.admit(d.c)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastID++
	d.c.id = s.lastID
	s.clients[d.c.id] = d.c
	return d
}

// send implements sessionWire. It refuses what the kernel and client.receive refuse.
func (d *directWire) send(record []byte, fds []int) error {
	switch {
	case len(record) == 0:
		return nil
	case len(record) > protocol.MaxRecord:
		return syscall.EMSGSIZE
	}
	own := make([]int, 0, len(fds))
	for _, fd := range fds {
		n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			closeAll(own)
			return err
		}
		own = append(own, n)
	}
	if err := d.c.handle(record, own); err != nil {
		d.c.cutOff(err)
	}
	return nil
}

// read implements sessionWire.
func (d *directWire) read() (h protocol.Header, body []byte, fds []int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.records) == 0 {
		return h, nil, nil, io.EOF
	}
	r := d.records[0]
	d.records = d.records[1:]
	h, body, err = protocol.DecodeReply(r.bytes)
	return h, body, r.fds, err
}

// ring implements sessionWire. It processes what was submitted.
func (d *directWire) ring(int) {
	for _, t := range d.c.startedTMs() {
		for n, err := 1, error(nil); n > 0 && err == nil; {
			if n, err = t.processRound(); err != nil {
				d.c.cutOff(fmt.Errorf("TM at %v: %w", t.address, err))
			}
		}
	}
}

func (d *directWire) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.records {
		closeAll(r.fds)
	}
	d.records = nil
}

func (d *directWire) put(record, control []byte) error {
	fds, err := descriptors(control)
	if err != nil {
		return err
	}
	r := directRecord{bytes: append([]byte(nil), record...)}
	for _, fd := range fds { // the server owns these
		n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return err
		}
		r.fds = append(r.fds, n)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.records = append(d.records, r)
	return nil
}

// write implements wire. There is always room for a record.
func (*directWire) write(f func() bool) error {
	f()
	return nil
}

func (*directWire) await(func(fd int) bool) error { return io.EOF }

func (*directWire) hungUp() bool                     { return false }
func (*directWire) SetDeadline(time.Time) error      { return nil }
func (*directWire) SetReadDeadline(time.Time) error  { return nil }
func (*directWire) SetWriteDeadline(time.Time) error { return nil }
func (*directWire) CloseRead() error                 { return nil }
func (*directWire) Close() error                     { return nil }
