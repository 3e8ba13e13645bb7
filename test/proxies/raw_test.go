package proxies

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/lnd/uplnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// Offsets in the ring file, of docs/transport-protocol.md.
const (
	offEntries    = 12
	offSQTail     = 64
	offSQHead     = 128
	offCQTail     = 192
	offCQHead     = 256
	offSQSleeping = 320
	offCQSleeping = 384
	headerSize    = 4096
)

// Descriptors that lnetd passes, in their order.
const (
	fdRing = iota
	fdEvent
	fdBell
	fdArea
	fdCount
)

// raw is a proxy that uses the protocol and the shared memory directly.
type raw struct {
	conn       *net.UnixConn
	nid        lnet.NID // of the NI
	fds        []int
	ring, area []byte
	n          uint32 // entries of each ring
	tail, head uint32 // its counters
}

// dial connects. It tries again while too many others connect.
func dial(socket string) (*net.UnixConn, error) {
	for {
		conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: socket, Net: "unixpacket"})
		if !errors.Is(err, syscall.EAGAIN) {
			return conn, err
		}
		time.Sleep(time.Millisecond)
	}
}

// refused reports whether an error means that lnetd has no room for another proxy now.
func refused(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EDQUOT)
}

// attach attaches a proxy to an NI.
func attach(socket string, nid lnet.NID) (_ *raw, err error) {
	p := &raw{}
	if p.conn, err = dial(socket); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	request := protocol.Attach{Net: nid.Net(), NID: nid, Name: "hostile"}
	if _, err := p.conn.Write(request.Append(nil)); err != nil {
		return nil, err
	}
	answer, control := make([]byte, protocol.MaxRecord), make([]byte, unix.CmsgSpace(4*fdCount))
	n, controls, _, _, err := p.conn.ReadMsgUnix(answer, control)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, io.EOF
	}
	a, err := protocol.DecodeAnswer(answer[:n])
	if err != nil {
		return nil, err
	}
	p.nid = a.NID
	messages, err := unix.ParseSocketControlMessage(control[:controls])
	if err != nil {
		return nil, err
	}
	if p.fds, err = unix.ParseUnixRights(&messages[0]); err != nil || len(p.fds) != fdCount {
		return nil, fmt.Errorf("%d descriptors: %w", len(p.fds), err)
	}
	return p, p.mapFiles(a.AreaSize)
}

// mapFiles maps the ring file and the area.
func (p *raw) mapFiles(area int) (err error) {
	var stat unix.Stat_t
	if err := unix.Fstat(p.fds[fdRing], &stat); err != nil {
		return err
	}
	if p.ring, err = unix.Mmap(p.fds[fdRing], 0, int(stat.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return err
	}
	if p.area, err = unix.Mmap(p.fds[fdArea], 0, area, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return err
	}
	p.n = p.word(offEntries).Load()
	p.tail, p.head = p.word(offSQTail).Load(), p.word(offCQHead).Load()
	return nil
}

// close ends everything.
func (p *raw) close() {
	if p.conn != nil {
		_ = p.conn.Close()
	}
	for _, fd := range p.fds {
		_ = unix.Close(fd)
	}
	for _, b := range [][]byte{p.ring, p.area} {
		if b != nil {
			_ = unix.Munmap(b)
		}
	}
}

// word returns a counter or a flag of the ring file.
func (p *raw) word(at int) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&p.ring[at])) }

// put writes an entry into the ring without storing the tail. It returns false if the ring is full.
func (p *raw) put(b *[protocol.EntrySize]byte) bool {
	if p.tail-p.word(offSQHead).Load() >= p.n {
		return false
	}
	copy(p.ring[headerSize+int(p.tail%p.n)*protocol.EntrySize:], b[:])
	p.tail++
	return true
}

// publish stores the tail and wakes lnetd.
func (p *raw) publish() {
	p.word(offSQTail).Store(p.tail)
	if p.word(offSQSleeping).Swap(0) != 0 {
		p.wake()
	}
}

// wake writes to lnetd's bell, unless that is full: lnetd does not read it any more after it has ended the connection.
func (p *raw) wake() {
	fds := []unix.PollFd{{Fd: int32(p.fds[fdEvent]), Events: unix.POLLOUT}}
	if n, _ := unix.Poll(fds, 0); n > 0 {
		_, _ = unix.Write(p.fds[fdEvent], []byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
}

// report passes an entry to lnetd. It waits a while if the ring is full, and returns false if it remains so: lnetd has
// ended the connection, or its counter is lost because the proxy has freed the page.
func (p *raw) report(e *protocol.Entry) bool {
	var b [protocol.EntrySize]byte
	e.Put(&b)
	for end := time.Now().Add(100 * time.Millisecond); !p.put(&b); time.Sleep(time.Millisecond) {
		if p.over() || time.Now().After(end) {
			return false
		}
	}
	p.publish()
	return true
}

// order reads an order. It does not wait.
func (p *raw) order() (e protocol.Entry, ok bool) {
	if p.head == p.word(offCQTail).Load() {
		return e, false
	}
	var b [protocol.EntrySize]byte
	at := headerSize + int(p.n+p.head%p.n)*protocol.EntrySize
	copy(b[:], p.ring[at:])
	p.head++
	p.word(offCQHead).Store(p.head)
	return e, e.DecodeOrder(&b) == nil
}

// over reports whether lnetd has ended the connection.
func (p *raw) over() bool {
	raw, err := p.conn.SyscallConn()
	if err != nil {
		return true
	}
	var ready bool
	_ = raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, _ := unix.Poll(fds, 0)
		ready = n > 0
	})
	return ready
}

// reason waits until lnetd has ended the connection, and returns why.
func (p *raw) reason() (string, error) {
	b := make([]byte, protocol.MaxRecord)
	if err := p.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	n, err := p.conn.Read(b)
	if err != nil {
		return "", fmt.Errorf("no reason: %w", err)
	}
	_, err = protocol.DecodeAnswer(b[:n])
	var f *protocol.Failure
	if !errors.As(err, &f) || f.Text == "" {
		return "", fmt.Errorf("% x is not a reason: %w", b[:n], err)
	}
	return f.Text, nil
}
