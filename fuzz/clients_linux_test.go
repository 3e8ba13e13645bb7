package fuzz

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/clients"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport/mem"
	"github.com/lnetd/lnetd/transport/remote/protocol"
	"github.com/lnetd/lnetd/transport/shm"
)

// What goes along with a record of a session, or what is to be done instead of sending one.
const (
	clientsPlain = iota
	clientsArea  // a proper memfd
	clientsLoose // one without seals
	clientsPipe
	clientsTwo     // memfds
	clientsMany    // more than there is room for
	clientsSubmit  // the bytes are an entry for the ring of the last TM
	clientsCounter // the bytes are a place in its header, and a number for it
	clientsKinds
)

const (
	clientsAreaSize = 64 << 10
	clientsPatience = 30 * time.Second
)

// clientsStep appends a step of a session: what it is, the length of its bytes, and those.
func clientsStep(b []byte, kind byte, data []byte) []byte {
	return append(binary.LittleEndian.AppendUint16(append(b, kind), uint16(len(data))), data...)
}

// clientsSession is a session as a client has it.
func clientsSession(f *testing.F, steps ...any) (b []byte) {
	f.Helper()
	kind, sequence := byte(clientsPlain), uint32(0)
	for _, s := range steps {
		switch s := s.(type) {
		case int:
			kind = byte(s)
			continue
		case protocol.Request:
			sequence++
			record, err := protocol.AppendRequest(nil, sequence, s)
			if err != nil {
				f.Fatal(err)
			}
			b = clientsStep(b, kind, record)
		case shm.Submission:
			var e [shm.SubmissionSize]byte
			s.Put(&e)
			b = clientsStep(b, clientsSubmit, e[:])
		case []byte:
			b = clientsStep(b, kind, s)
		}
		kind = clientsPlain
	}
	return b
}

// FuzzClientsSocket has a client send records, with descriptors, and write into its rings.
// lnetd answers each record, or says why it does not and ends the connection; and when the
// client has gone, nothing of it is left.
//
// transport 9.1, 9.2
// transport-tests P (126)
func FuzzClientsSocket(f *testing.F) {
	home, err := lnet.ParseNID("10.0.0.1@tcp")
	if err != nil {
		f.Fatal(err)
	}
	hello := &protocol.Hello{Lowest: 1, Highest: 1, Program: "fuzz"}
	area, register := &protocol.AreaAdd{Size: clientsAreaSize}, &protocol.BufRegister{Ranges: []protocol.Range{{Length: 4096, Offset: 4096}}}
	start := &protocol.TMStart{NID: home, PID: lnet.PIDLustre, Portal: 34, TMID: 7, Completions: 2}
	receive := shm.Submission{Opcode: shm.OpMsgRecv, Generation: 1, Operation: 1, MinReceive: 64, MaxMessages: 1}
	send := shm.Submission{Opcode: shm.OpMsgSend, Generation: 1, Operation: 1, Length: 64, Peer: home, PID: lnet.PIDLustre, Portal: 34, TMID: 7}
	cancel := shm.Submission{Opcode: shm.OpCancel, Generation: 1, Operation: 1}
	for _, steps := range [][]any{
		{hello, &protocol.NIDsGet{}, clientsArea, area, register, start, send, &protocol.StatsGet{}, &protocol.TMStop{},
			&protocol.BufDeregister{Generation: 1}, &protocol.AreaDel{}},
		{hello, clientsArea, area, register, start, receive, cancel, &protocol.TMStop{}, &protocol.StatsGet{Handle: protocol.NoHandle}},
		{hello, clientsLoose, area, clientsPipe, area, &protocol.Nop{Data: []byte("echo")}},
		{hello, clientsTwo, area}, {hello, clientsMany, area}, {hello, area}, {start, hello}, {hello, hello},
		{hello, start, clientsCounter, []byte{64, 0, 9, 9, 9, 9}, &protocol.TMStop{}},
	} {
		f.Add(clientsSession(f, steps...))
	}
	w := newClientsWorld(f, home)
	w.session(f, clientsSession(f, hello, start)) // opens what the process keeps open
	f.Fuzz(func(t *testing.T, b []byte) { w.session(t, b) })
}

// clientsWorld is an lnetd over a Core in memory.
type clientsWorld struct {
	server *clients.Server
	path   string
}

func newClientsWorld(f *testing.F, home lnet.NID) *clientsWorld {
	quotas := clients.Quotas{TMs: 4, Buffers: 64, Areas: 4, RingEntries: 1024, Requests: 1 << 20}
	server, err := clients.New(clients.Config{
		Core:  mem.New(mem.Config{}).Host(home),
		Rules: []clients.Rule{{Name: "fuzz", Connection: quotas}},
	})
	if err != nil {
		f.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "fuzz")
	if err != nil {
		f.Fatal(err)
	}
	w := &clientsWorld{server, filepath.Join(dir, "s")}
	l, err := clients.Listen(w.path, -1)
	if err != nil {
		f.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	f.Cleanup(func() {
		if err := errors.Join(server.Close(context.Background()), <-served, os.RemoveAll(dir)); err != nil {
			f.Error(err)
		}
	})
	return w
}

// session is one client, from coming to going.
func (w *clientsWorld) session(t testing.TB, b []byte) {
	t.Helper()
	before := clientsDescriptors(t)
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: w.path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	c := &clientsClient{t: t, conn: conn, buffer: make([]byte, protocol.MaxRecord+1)}
	for len(b) >= 3 && !c.over {
		kind, n := b[0]%clientsKinds, int(binary.LittleEndian.Uint16(b[1:]))
		n = min(n, len(b)-3)
		c.step(kind, b[3:3+n])
		b = b[3+n:]
	}
	c.leave()
	for end := time.Now().Add(clientsPatience); len(w.server.Clients()) > 0 || clientsDescriptors(t) > before; {
		if time.Now().After(end) {
			t.Fatalf("%d clients are left, and %d descriptors of %d", len(w.server.Clients()), clientsDescriptors(t), before)
		}
		time.Sleep(20 * time.Microsecond)
	}
}

func clientsDescriptors(t testing.TB) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// clientsClient is the client of a session.
type clientsClient struct {
	t      testing.TB
	conn   *net.UnixConn
	buffer []byte
	over   bool // lnetd has ended it, and has said why
	ring   []byte
	size   uint32 // submissions in it
	bell   int
	fds    []int // of all rings
	maps   [][]byte
}

// step does one thing, and sees what comes of it.
func (c *clientsClient) step(kind byte, data []byte) {
	switch kind {
	case clientsSubmit:
		c.submit(data)
	case clientsCounter:
		if c.ring != nil && len(data) >= 6 {
			at := int(binary.LittleEndian.Uint16(data)) % 512 &^ 3
			(*atomic.Uint32)(unsafe.Pointer(&c.ring[at])).Store(binary.LittleEndian.Uint32(data[2:]))
			_, _ = unix.Write(c.bell, []byte{1, 0, 0, 0, 0, 0, 0, 0})
		}
	default:
		c.send(kind, remoteSized(data))
	}
}

func (c *clientsClient) submit(data []byte) {
	if c.ring == nil {
		return
	}
	tail := (*atomic.Uint32)(unsafe.Pointer(&c.ring[64]))
	at := 4096 + int(tail.Load()&(c.size-1))*shm.SubmissionSize
	clear(c.ring[at : at+shm.SubmissionSize])
	copy(c.ring[at:at+shm.SubmissionSize], data)
	tail.Add(1)
	_, _ = unix.Write(c.bell, []byte{1, 0, 0, 0, 0, 0, 0, 0})
}

// send sends a record, and waits for the reply, or for the end.
func (c *clientsClient) send(kind byte, record []byte) {
	c.t.Helper()
	fds := c.descriptors(kind)
	var control []byte
	if len(fds) > 0 {
		control = unix.UnixRights(fds...)
	}
	_, _, err := c.conn.WriteMsgUnix(record, control, nil)
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
	switch {
	case errors.Is(err, syscall.EMSGSIZE):
		return
	case err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET):
		c.t.Fatal(err)
	}
	c.await(record)
}

// descriptors are what goes along.
func (c *clientsClient) descriptors(kind byte) (fds []int) {
	c.t.Helper()
	memfd := func(seals int) {
		fd, err := unix.MemfdCreate("fuzz", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		if err == nil {
			err = unix.Ftruncate(fd, clientsAreaSize)
		}
		if err == nil && seals != 0 {
			_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
		}
		if err != nil {
			c.t.Fatal(err)
		}
		fds = append(fds, fd)
	}
	switch kind {
	case clientsArea:
		memfd(unix.F_SEAL_SHRINK)
	case clientsLoose:
		memfd(0)
	case clientsTwo, clientsMany:
		for range []int{clientsTwo: 2, clientsMany: 20}[kind] {
			memfd(unix.F_SEAL_SHRINK)
		}
	case clientsPipe:
		var p [2]int
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
			c.t.Fatal(err)
		}
		_ = unix.Close(p[1])
		fds = append(fds, p[0])
	}
	return fds
}

// await reads the reply to a record. There is one, unless lnetd has said why it ends the
// connection, or the record was empty.
func (c *clientsClient) await(record []byte) {
	c.t.Helper()
	said := false
	for ended := false; ; {
		h, body, fds, err := c.read()
		if errors.Is(err, io.EOF) && !ended {
			ended = true
			continue // the reason may have come with it
		}
		if errors.Is(err, io.EOF) {
			if c.over = true; !said && len(record) > 0 {
				c.t.Fatalf("the connection has ended for no reason, behind % x", record)
			}
			return
		}
		if err != nil {
			c.t.Fatal(err)
		}
		if h.Opcode == protocol.OpNotice {
			var n protocol.Notice
			if err := n.Decode(body); err != nil {
				c.t.Fatal(err)
			}
			remoteText(c.t, n.Text, protocol.MaxText)
			if said = said || n.Kind == protocol.NoticeCutOff; said && (n.Text == "" || n.Errno() == 0) {
				c.t.Fatalf("cut off by %+v", n)
			}
			continue
		}
		c.check(record, h, body, fds)
		return
	}
}

// check looks at a reply.
func (c *clientsClient) check(record []byte, h protocol.Header, body []byte, fds []int) {
	c.t.Helper()
	c.fds = append(c.fds, fds...)
	asked, r, _ := protocol.DecodeRequest(record)
	if h.Opcode != asked.Opcode || h.Sequence != asked.Sequence {
		c.t.Fatalf("% x was answered %+v", record, h)
	}
	if err := h.Failure(body); err != nil {
		var failure *protocol.Failure
		if len(fds) > 0 || !errors.As(err, &failure) {
			c.t.Fatalf("%v, with %d descriptors", err, len(fds))
		}
		remoteText(c.t, failure.Text, protocol.MaxText)
		return
	}
	if len(fds) != h.Opcode.ReplyFDs() {
		c.t.Fatalf("%d descriptors with %v", len(fds), h.Opcode)
	}
	if _, ok := r.(*protocol.TMStart); !ok {
		return
	}
	var reply protocol.TMStartReply
	if err := reply.Decode(body); err != nil {
		c.t.Fatal(err)
	}
	sizes := shm.Sizes{Submissions: 4 * int(reply.Completions), Completions: int(reply.Completions)}
	m, err := unix.Mmap(fds[0], 0, sizes.FileSize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		c.t.Fatal(err)
	}
	c.ring, c.size, c.bell, c.maps = m, uint32(sizes.Submissions), fds[1], append(c.maps, m)
}

// read reads a record, with what came along.
func (c *clientsClient) read() (h protocol.Header, body []byte, fds []int, err error) {
	var control [256]byte
	_ = c.conn.SetReadDeadline(time.Now().Add(clientsPatience))
	n, m, _, _, err := c.conn.ReadMsgUnix(c.buffer, control[:])
	if errors.Is(err, syscall.ECONNRESET) {
		return c.read() // the reason is yet to come
	}
	if err != nil {
		return h, nil, nil, err
	}
	messages, err := unix.ParseSocketControlMessage(control[:m])
	for i := range messages {
		more, e := unix.ParseUnixRights(&messages[i])
		fds, err = append(fds, more...), errors.Join(err, e)
	}
	if err == nil {
		h, body, err = protocol.DecodeReply(c.buffer[:n])
	}
	return h, body, fds, err
}

// leave ends the client.
func (c *clientsClient) leave() {
	_ = c.conn.Close()
	for _, m := range c.maps {
		_ = unix.Munmap(m)
	}
	for _, fd := range c.fds {
		_ = unix.Close(fd)
	}
}
