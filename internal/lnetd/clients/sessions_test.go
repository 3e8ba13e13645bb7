package clients

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/lnetd/unixsocket"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory/shared"
	"github.com/lnetd/lnetd/transport/remote/protocol"
	"github.com/lnetd/lnetd/transport/shm"
)

// Kinds of steps: the descriptors that are sent with a record, or another action.
const (
	sessionPlain = iota
	sessionArea  // a valid memfd
	sessionLoose // a memfd without seals
	sessionPipe
	sessionTwo     // two memfds
	sessionMany    // more than lnetd accepts
	sessionSubmit  // the bytes are an entry for the ring of the last TM
	sessionCounter // the bytes are an offset in its header and a number for it
	sessionKinds
)

const sessionAreaSize = 64 << 10

// sessionStep appends a step of a session: its kind, the length of its data, and the data.
func sessionStep(b []byte, kind byte, data []byte) []byte {
	return append(binary.LittleEndian.AppendUint16(append(b, kind), uint16(len(data))), data...)
}

// makeSession encodes a session.
func makeSession(t testing.TB, steps ...any) (b []byte) {
	t.Helper()
	kind, sequence := byte(sessionPlain), uint32(0)
	for _, s := range steps {
		switch s := s.(type) {
		case int:
			kind = byte(s)
			continue
		case protocol.Request:
			sequence++
			record, err := protocol.AppendRequest(nil, sequence, s)
			if err != nil {
				t.Fatal(err)
			}
			b = sessionStep(b, kind, record)
		case shm.Submission:
			var e [shm.SubmissionSize]byte
			s.Put(&e)
			b = sessionStep(b, sessionSubmit, e[:])
		case []byte:
			b = sessionStep(b, kind, s)
		}
		kind = sessionPlain
	}
	return b
}

// makeSessions returns valid and invalid sessions.
func makeSessions(t testing.TB) (all [][]byte) {
	t.Helper()
	hello := &protocol.Hello{Lowest: 1, Highest: 1, Program: "fuzz"}
	area, register := &protocol.AreaAdd{Size: sessionAreaSize}, &protocol.BufRegister{Ranges: []protocol.Range{{Length: 4096, Offset: 4096}}}
	start := &protocol.TMStart{NID: home, PID: lnet.PIDLustre, Portal: 34, TMID: 7, Completions: 2}
	receive := shm.Submission{Opcode: shm.OpMsgRecv, Generation: 1, Operation: 1, MinReceive: 64, MaxMessages: 1}
	send := shm.Submission{Opcode: shm.OpMsgSend, Generation: 1, Operation: 1, Length: 64, Peer: home, PID: lnet.PIDLustre, Portal: 34, TMID: 7}
	cancel := shm.Submission{Opcode: shm.OpCancel, Generation: 1, Operation: 1}
	for _, steps := range [][]any{
		{hello, &protocol.NIDsGet{}, sessionArea, area, register, start, send, &protocol.StatsGet{}, &protocol.TMStop{},
			&protocol.BufDeregister{Generation: 1}, &protocol.AreaDel{}},
		{hello, sessionArea, area, register, start, receive, cancel, &protocol.TMStop{}, &protocol.StatsGet{Handle: protocol.NoHandle}},
		{hello, sessionLoose, area, sessionPipe, area, &protocol.Nop{Data: []byte("echo")}},
		{hello, sessionTwo, area}, {hello, sessionMany, area}, {hello, area}, {start, hello}, {hello, hello},
		{hello, start, sessionCounter, []byte{64, 0, 9, 9, 9, 9}, &protocol.TMStop{}},
	} {
		all = append(all, makeSession(t, steps...))
	}
	return all
}

var sessionQuotas = Quotas{TMs: 4, Buffers: 64, Areas: 4, RingEntries: 1024, Requests: 1 << 20}

// FuzzClientsRequests lets a client send records with descriptors and write to its rings. There is no
// socket: requests and submissions are processed by calls. lnetd answers each record, or gives the reason
// and ends the connection. When the client has gone, nothing of it is left. TestSessions runs the same
// sessions over a socket.
//
// transport 9.1, 9.2
// transport-tests P (126)
func FuzzClientsRequests(f *testing.F) {
	for _, b := range makeSessions(f) {
		f.Add(b)
	}
	w := newWorld(f, func(c *Config) { c.Rules = []Rule{{Name: "fuzz", Connection: sessionQuotas}} })
	me := Process{Peer: unixsocket.Peer{PID: int32(os.Getpid()), UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}}
	sessions, before := 0, 0
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > sessionMost {
			return
		}
		direct := newDirectWire(w.server, me)
		(&sessionClient{t: t, wire: direct}).play(b)
		direct.c.cancel()
		direct.c.releaseAll()
		if n := len(w.server.Clients()); n > 0 || len(w.server.users.all) > 0 {
			t.Fatalf("%d clients are left, and charges for users %v", n, w.server.users.all)
		}
		// Counting descriptors costs more than most sessions.
		if sessions++; sessions%sessionsPerCount == 1 {
			if n := openDescriptors(t); before != 0 && n > before {
				t.Fatalf("%d descriptors are left of %d sessions", n-before, sessionsPerCount)
			} else if before == 0 {
				before = n
			}
		}
	})
}

const (
	sessionMost      = 2048 // bytes; longer sessions find no more than shorter ones
	sessionsPerCount = 64
)

// TestSessions runs sessions over a socket: the seeds of FuzzClientsRequests and random mutations of
// them.
//
// transport 9.1, 9.2
// transport-tests P (126)
func TestSessions(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Rules = []Rule{{Name: "fuzz", Connection: sessionQuotas}} })
	all := makeSessions(t)
	w.session(t, all[0], false) // opens what the process keeps open
	for _, b := range all {
		w.session(t, b, true)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		b := bytes.Clone(all[random.IntN(len(all))])
		for range 1 + random.IntN(3) {
			b[random.IntN(len(b))] ^= 1 << random.IntN(8)
		}
		w.session(t, b, true)
	}
}

// session runs one client with a socket, from connect to close. If exact is true, it checks that no
// descriptor is left.
func (w *world) session(t testing.TB, b []byte, exact bool) {
	t.Helper()
	before := openDescriptors(t)
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: w.path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	(&sessionClient{t: t, wire: &socketWire{conn: conn, buffer: make([]byte, protocol.MaxRecord+1)}}).play(b)
	eventually(t, "the client is gone, with its descriptors", func() bool {
		return len(w.server.Clients()) == 0 && (!exact || openDescriptors(t) <= before)
	})
}

func openDescriptors(t testing.TB) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// sessionWire is the client's end of a connection.
type sessionWire interface {
	// send sends a record with descriptors, which the caller still owns.
	send(record []byte, fds []int) error
	// read reads a record and its descriptors. It returns io.EOF after the last one.
	read() (h protocol.Header, body []byte, fds []int, err error)
	// ring rings the bell of a ring.
	ring(bell int)
	close()
}

// sessionClient is the client of a session.
type sessionClient struct {
	t    testing.TB
	wire sessionWire
	over bool // lnetd has ended the connection, with a reason
	ring []byte
	size uint32 // submissions in it
	bell int
	fds  []int // of all rings
	maps [][]byte
}

// play runs the steps in b, and closes the connection.
func (c *sessionClient) play(b []byte) {
	c.t.Helper()
	for len(b) >= 3 && !c.over {
		kind, n := b[0]%sessionKinds, int(binary.LittleEndian.Uint16(b[1:]))
		n = min(n, len(b)-3)
		c.step(kind, b[3:3+n])
		b = b[3+n:]
	}
	c.wire.close()
	for _, m := range c.maps {
		_ = unix.Munmap(m)
	}
	closeAll(c.fds)
}

// step runs one step, and checks the answer.
func (c *sessionClient) step(kind byte, data []byte) {
	switch kind {
	case sessionSubmit:
		c.submit(data)
	case sessionCounter:
		if c.ring != nil && len(data) >= 6 {
			at := int(binary.LittleEndian.Uint16(data)) % 512 &^ 3
			(*atomic.Uint32)(unsafe.Pointer(&c.ring[at])).Store(binary.LittleEndian.Uint32(data[2:]))
			c.wire.ring(c.bell)
		}
	default:
		c.send(kind, withItsSize(data))
	}
}

func (c *sessionClient) submit(data []byte) {
	if c.ring == nil {
		return
	}
	tail := (*atomic.Uint32)(unsafe.Pointer(&c.ring[64]))
	at := 4096 + int(tail.Load()&(c.size-1))*shm.SubmissionSize
	clear(c.ring[at : at+shm.SubmissionSize])
	copy(c.ring[at:at+shm.SubmissionSize], data)
	tail.Add(1)
	c.wire.ring(c.bell)
}

// send sends a record, and waits for the reply or the end of the connection.
func (c *sessionClient) send(kind byte, record []byte) {
	c.t.Helper()
	fds := c.descriptors(kind)
	err := c.wire.send(record, fds)
	closeAll(fds)
	switch {
	case errors.Is(err, syscall.EMSGSIZE):
		return
	case err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET):
		c.t.Fatal(err)
	}
	c.await(record)
}

// descriptors returns the descriptors to send with a step.
func (c *sessionClient) descriptors(kind byte) (fds []int) {
	c.t.Helper()
	memfd := func(seals int) {
		fd, err := unix.MemfdCreate("fuzz", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		if err == nil {
			err = unix.Ftruncate(fd, sessionAreaSize)
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
	case sessionArea:
		memfd(unix.F_SEAL_SHRINK)
	case sessionLoose:
		memfd(0)
	case sessionTwo, sessionMany:
		for range []int{sessionTwo: 2, sessionMany: 20}[kind] {
			memfd(unix.F_SEAL_SHRINK)
		}
	case sessionPipe:
		var p [2]int
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
			c.t.Fatal(err)
		}
		_ = unix.Close(p[1])
		fds = append(fds, p[0])
	}
	return fds
}

// await reads the reply to a record. There must be one, unless lnetd has sent the reason why it ends the
// connection, or the record was empty.
func (c *sessionClient) await(record []byte) {
	c.t.Helper()
	said := false
	for ended := false; ; {
		h, body, fds, err := c.wire.read()
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
			c.checkText(n.Text)
			if said = said || n.Kind == protocol.NoticeCutOff; said && (n.Text == "" || n.Errno() == 0) {
				c.t.Fatalf("cut off by %+v", n)
			}
			continue
		}
		c.check(record, h, body, fds)
		return
	}
}

// check validates a reply.
func (c *sessionClient) check(record []byte, h protocol.Header, body []byte, fds []int) {
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
		c.checkText(failure.Text)
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
	sizes := shared.Sizes{Submissions: 4 * int(reply.Completions), Completions: int(reply.Completions)}
	m, err := unix.Mmap(fds[0], 0, shm.FileSize(sizes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		c.t.Fatal(err)
	}
	c.ring, c.size, c.bell, c.maps = m, uint32(sizes.Submissions), fds[1], append(c.maps, m)
}

func (c *sessionClient) checkText(s string) {
	c.t.Helper()
	if len(s) > protocol.MaxText || bytes.ContainsFunc([]byte(s), func(r rune) bool { return r < ' ' || r > '~' }) {
		c.t.Fatalf("%q is not fit to be shown", s)
	}
}

// withItsSize returns b with its own length in its header, which a mutation seldom gets right. A length
// of 0 stays.
func withItsSize(b []byte) []byte {
	if len(b) < protocol.HeaderSize || b[8] == 0 {
		return b
	}
	b = bytes.Clone(b)
	binary.LittleEndian.PutUint32(b[8:], uint32(len(b)))
	return b
}
