package hosting

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory/shared"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/remote/protocol"
	"github.com/lnetd/lnetd/transport/shm"
)

// raw is a client that uses the protocol directly.
type raw struct {
	conn     *net.UnixConn
	sequence uint32
	hello    protocol.HelloReply
	// cutOff is the reason that lnetd has sent for closing the connection, or "".
	cutOff string
	errno  syscall.Errno
}

// rawDial connects, without HELLO.
func rawDial(socket string) (*raw, error) {
	for {
		conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: socket, Net: "unixpacket"})
		if errors.Is(err, syscall.EAGAIN) {
			time.Sleep(time.Millisecond) // too many connect at once
			continue
		}
		if err != nil {
			return nil, err
		}
		return &raw{conn: conn}, nil
	}
}

// rawJoin connects and sends HELLO. It tries again while lnetd refuses because this user has connected
// too often.
func rawJoin(socket, program string) (*raw, error) {
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		p, err := rawDial(socket)
		if err != nil {
			return nil, err
		}
		err = p.ask(&protocol.Hello{Lowest: 1, Highest: 1, Program: program}, &p.hello)
		if err == nil {
			return p, nil
		}
		p.close()
		if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.EPIPE) || time.Now().After(end) {
			return nil, err
		}
	}
}

func (p *raw) close() { _ = p.conn.Close() }

// write sends a record.
func (p *raw) write(record []byte, fds ...int) error {
	var control []byte
	if len(fds) > 0 {
		control = unix.UnixRights(fds...)
	}
	_, _, err := p.conn.WriteMsgUnix(record, control, nil)
	return err
}

// read reads a record that is not a notice. It returns io.EOF if lnetd has closed the connection.
func (p *raw) read() (h protocol.Header, body []byte, fds []int, err error) {
	for ended := false; ; {
		b, control := make([]byte, protocol.MaxRecord), make([]byte, 256)
		_ = p.conn.SetReadDeadline(time.Now().Add(patience))
		n, controls, _, _, err := p.conn.ReadMsgUnix(b, control)
		if errors.Is(err, syscall.ECONNRESET) {
			continue // the reason is yet to come
		}
		if errors.Is(err, io.EOF) && !ended {
			ended = true
			continue // the reason may have come with it
		}
		if err != nil {
			return h, nil, nil, err
		}
		messages, err := unix.ParseSocketControlMessage(control[:controls])
		if err != nil {
			return h, nil, nil, err
		}
		for i := range messages {
			more, err := unix.ParseUnixRights(&messages[i])
			if err != nil {
				return h, nil, nil, err
			}
			fds = append(fds, more...)
		}
		if h, body, err = protocol.DecodeReply(b[:n]); err != nil || h.Opcode != protocol.OpNotice {
			return h, body, fds, err
		}
		var notice protocol.Notice
		if err := notice.Decode(body); err != nil {
			return h, nil, nil, err
		}
		if notice.Kind == protocol.NoticeCutOff {
			p.cutOff, p.errno = notice.Text, notice.Errno()
		}
	}
}

// request sends a request, and returns the descriptors that came with the reply.
func (p *raw) request(r protocol.Request, reply protocol.Body, with ...int) (fds []int, err error) {
	p.sequence++
	record, err := protocol.AppendRequest(nil, p.sequence, r)
	if err != nil {
		return nil, err
	}
	if err := p.write(record, with...); err != nil {
		return nil, err
	}
	h, body, fds, err := p.read()
	if err != nil {
		return nil, err
	}
	if h.Sequence != p.sequence || h.Opcode != r.Opcode() {
		return fds, fmt.Errorf("the reply to %v is %+v", r.Opcode(), h)
	}
	if err := h.Failure(body); err != nil {
		return fds, err
	}
	return fds, reply.Decode(body)
}

func (p *raw) ask(r protocol.Request, reply protocol.Body) error {
	_, err := p.request(r, reply)
	return err
}

// refused checks that a request fails with an errno.
func (p *raw) refused(what string, want syscall.Errno, r protocol.Request, with ...int) error {
	if _, err := p.request(r, &protocol.Empty{}, with...); !errors.Is(err, want) {
		return fmt.Errorf("%s: answered %v, want %v", what, err, want)
	}
	return nil
}

// reason reads to the end of the connection, and returns lnetd's reason for closing it. It returns an
// error if lnetd has sent none.
func (p *raw) reason() (string, error) {
	for {
		_, _, fds, err := p.read()
		closeAll(fds)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", fmt.Errorf("the end of the connection is %w", err)
		}
	}
	if len(strings.Fields(p.cutOff)) < 2 || p.errno == 0 {
		return "", fmt.Errorf("cut off for no reason: %q, %v", p.cutOff, p.errno)
	}
	return p.cutOff, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

// share creates an area of whole pages. The caller closes fd and memory.
func (p *raw) share(size int) (id uint32, m *shared.Memory, fd int, err error) {
	if m, fd, err = shared.Create("hosting", size); err != nil {
		return 0, nil, 0, err
	}
	var reply protocol.AreaAddReply
	if _, err = p.request(&protocol.AreaAdd{Size: uint64(size)}, &reply, fd); err != nil {
		_ = m.Close()
		_ = unix.Close(fd)
		return 0, nil, 0, err
	}
	return reply.Area, m, fd, nil
}

// register registers a part of an area, in ranges of a page.
func (p *raw) register(area uint32, offset, size int) (b protocol.BufRegisterReply, err error) {
	var ranges []protocol.Range
	for at := 0; at < size; at += 4096 {
		ranges = append(ranges, protocol.Range{Area: area, Length: uint32(min(4096, size-at)), Offset: uint64(offset + at)})
	}
	err = p.ask(&protocol.BufRegister{Ranges: ranges}, &b)
	return b, err
}

// rawRing is a TM without the client library: the ring file as bytes.
type rawRing struct {
	handle      uint32
	at          transport.Address
	submissions int // entries
	completions int
	file        []byte
	fds         []int // ring file, eventfd, socket
}

// start starts a TM.
func (p *raw) start(address string, entries uint32) (*rawRing, error) {
	a, err := transport.ParseAddress(address)
	if err != nil {
		return nil, err
	}
	var reply protocol.TMStartReply
	fds, err := p.request(&protocol.TMStart{
		NID: a.NID, PID: lnet.PIDLustre, Portal: a.Portal, TMID: uint32(a.TMID), Completions: entries,
	}, &reply)
	if err != nil {
		return nil, err
	}
	r := &rawRing{handle: reply.Handle, at: a, completions: int(reply.Completions), submissions: 4 * int(reply.Completions), fds: fds}
	r.at.TMID = uint16(reply.TMID)
	sizes := shared.Sizes{Submissions: r.submissions, Completions: r.completions}
	if r.file, err = unix.Mmap(fds[0], 0, shm.FileSize(sizes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		closeAll(fds)
		return nil, err
	}
	return r, nil
}

// attach returns the regular client end of the ring. It owns the descriptors.
func (r *rawRing) attach() (*shm.Client, error) {
	return shm.AttachRing(shared.Files{Ring: r.fds[0], Submissions: r.fds[1], Completions: r.fds[2]})
}

func (r *rawRing) close() {
	_ = unix.Munmap(r.file)
	closeAll(r.fds)
}
