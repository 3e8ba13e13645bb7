package clients

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory/shared"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/mem"
	"github.com/lnetd/lnetd/transport/remote/protocol"
	"github.com/lnetd/lnetd/transport/shm"
)

// home is the NID of the host of the test servers.
var home = func() lnet.NID {
	nid, err := lnet.ParseNID("10.0.0.1@tcp")
	if err != nil {
		panic(err)
	}
	return nid
}()

// patience is how long a test waits for anything.
const patience = 30 * time.Second

// world is a Server over a Core in memory.
type world struct {
	t      testing.TB
	server *Server
	core   transport.Core
	path   string
	log    logBuffer
}

// logBuffer collects log lines.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// lines returns the lines so far, without debug lines.
func (l *logBuffer) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSuffix(l.b.String(), "\n"), "\n")[:strings.Count(l.b.String(), "\n")]
}

// newWorld starts a Server, which is closed when the test ends.
func newWorld(t testing.TB, change func(*Config)) *world {
	t.Helper()
	w := &world{t: t, core: mem.New(mem.Config{}).Host(home)}
	c := Config{Core: w.core, Logger: slog.New(slog.NewTextHandler(&w.log, nil)), Incarnation: 77}
	if change != nil {
		change(&c)
	}
	w.core = c.Core
	var err error
	if w.server, err = New(c); err != nil {
		t.Fatal(err)
	}
	w.path = filepath.Join(testenv.SocketDir(t), "s")
	l, err := Listen(w.path, -1)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- w.server.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := errors.Join(w.server.Close(ctx), <-served); err != nil {
			t.Error(err)
		}
		for _, line := range w.log.lines() {
			if strings.Contains(line, "level=ERROR") {
				t.Error(line)
			}
		}
	})
	return w
}

// eventually waits until f returns true.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !f(); {
		if time.Now().After(end) {
			t.Fatalf("in vain: %s", what)
		}
		runtime.Gosched()
		time.Sleep(100 * time.Microsecond)
	}
}

// empty waits until no client is left.
func (w *world) empty() {
	w.t.Helper()
	eventually(w.t, "the clients are gone", func() bool { return len(w.server.Clients()) == 0 })
}

// peer is a client that encodes the protocol itself.
type peer struct {
	t        testing.TB
	conn     *net.UnixConn
	sequence uint32
	hello    protocol.HelloReply
	notices  []protocol.Notice
	credits  uint32 // of the TM that was started last
}

// dial connects without HELLO.
func (w *world) dial() *peer {
	w.t.Helper()
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: w.path, Net: "unixpacket"})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = conn.Close() })
	return &peer{t: w.t, conn: conn}
}

// join connects and sends HELLO.
func (w *world) join() *peer {
	w.t.Helper()
	return w.joinWith(protocol.FeatOverflow)
}

// joinWith connects and requires features.
func (w *world) joinWith(features protocol.Features) *peer {
	w.t.Helper()
	p := w.dial()
	if err := p.ask(&protocol.Hello{Lowest: 1, Highest: 1, Required: features, Program: "test"}, &p.hello); err != nil {
		w.t.Fatal(err)
	}
	return p
}

// write sends a record.
func (p *peer) write(record []byte, fds ...int) error {
	var control []byte
	if len(fds) > 0 {
		control = unix.UnixRights(fds...)
	}
	_, _, err := p.conn.WriteMsgUnix(record, control, nil)
	return err
}

// read reads a record. It stores notices and skips them.
func (p *peer) read() (h protocol.Header, body []byte, fds []int, err error) {
	for ended := false; ; {
		b, control := make([]byte, protocol.MaxRecord), make([]byte, 256)
		_ = p.conn.SetReadDeadline(time.Now().Add(patience))
		n, controls, _, _, err := p.conn.ReadMsgUnix(b, control)
		if errors.Is(err, io.EOF) && !ended {
			ended = true
			continue // a record may have come with it
		}
		if err != nil {
			return h, nil, nil, err
		}
		if fds, err = descriptors(control[:controls]); err != nil {
			return h, nil, nil, err
		}
		h, body, err = protocol.DecodeReply(b[:n])
		if err != nil || h.Opcode != protocol.OpNotice {
			return h, body, fds, err
		}
		var notice protocol.Notice
		if err := notice.Decode(body); err != nil {
			return h, nil, nil, err
		}
		p.notices = append(p.notices, notice)
	}
}

// request sends a request and returns the descriptors of the reply.
func (p *peer) request(r protocol.Request, reply protocol.Body, with ...int) (fds []int, err error) {
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
		return nil, fmt.Errorf("the reply is %+v", h)
	}
	if err := h.Failure(body); err != nil {
		return fds, err
	}
	return fds, reply.Decode(body)
}

// ask is request without descriptors.
func (p *peer) ask(r protocol.Request, reply protocol.Body) error {
	_, err := p.request(r, reply)
	return err
}

// must fails the test if a request fails.
func (p *peer) must(r protocol.Request, reply protocol.Body) {
	p.t.Helper()
	if err := p.ask(r, reply); err != nil {
		p.t.Fatalf("%v: %v", r.Opcode(), err)
	}
}

// refused fails the test unless the request fails with the errno.
func (p *peer) refused(r protocol.Request, want syscall.Errno) {
	p.t.Helper()
	if err := p.ask(r, &protocol.Empty{}); !errors.Is(err, want) {
		p.t.Errorf("%v: %v, want %v", r.Opcode(), err, want)
	}
}

// cut fails the test unless the connection ends with a reason that has the errno and the words.
func (p *peer) cut(errno syscall.Errno, words string) {
	p.t.Helper()
	for {
		if _, _, _, err := p.read(); err != nil {
			if !errors.Is(err, io.EOF) {
				p.t.Errorf("the connection ends with %v", err)
			}
			break
		}
	}
	if len(p.notices) == 0 {
		p.t.Error("no reason was given")
		return
	}
	n := p.notices[len(p.notices)-1]
	if n.Errno() != errno || !strings.Contains(n.Text, words) {
		p.t.Errorf("cut off: %v, %q; want %v, %q", n.Errno(), n.Text, errno, words)
	}
}

// sharedArea is memory that both sides have mapped.
type sharedArea struct {
	id     uint32
	memory *shared.Memory
}

// share adds an area.
func (p *peer) share(size int) sharedArea {
	p.t.Helper()
	m, fd, err := shared.Create("test", size)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = m.Close() })
	defer func() { _ = unix.Close(fd) }()
	var reply protocol.AreaAddReply
	if _, err := p.request(&protocol.AreaAdd{Size: uint64(len(m.Bytes()))}, &reply, fd); err != nil {
		p.t.Fatal(err)
	}
	return sharedArea{reply.Area, m}
}

// register registers a buffer.
func (p *peer) register(parts ...protocol.Range) protocol.BufRegisterReply {
	p.t.Helper()
	var reply protocol.BufRegisterReply
	p.must(&protocol.BufRegister{Ranges: parts}, &reply)
	return reply
}

// ring is a TM of a peer.
type ring struct {
	*shm.Client
	peer   *peer
	file   []byte // another mapping of the ring file
	handle uint32
	at     transport.Address
	// submitted counts the submissions made by submit.
	submitted uint64
}

// start starts a TM.
func (p *peer) start(portal, id, entries uint32) *ring {
	p.t.Helper()
	r, err := p.tryStart(portal, id, entries)
	if err != nil {
		p.t.Fatal(err)
	}
	return r
}

func (p *peer) tryStart(portal, id, entries uint32) (*ring, error) {
	return p.tryStartAt(home, portal, id, entries)
}

func (p *peer) tryStartAt(nid lnet.NID, portal, id, entries uint32) (*ring, error) {
	var reply protocol.TMStartReply
	fds, err := p.request(&protocol.TMStart{NID: nid, PID: lnet.PIDLustre, Portal: portal, TMID: id, Completions: entries}, &reply)
	if err != nil {
		return nil, err
	}
	if len(fds) != 3 {
		return nil, fmt.Errorf("%d descriptors", len(fds))
	}
	sizes := shared.Sizes{Submissions: protocol.SubmissionsPerCompletion * int(reply.Completions), Completions: int(reply.Completions)}
	file, err := unix.Mmap(fds[0], 0, shm.FileSize(sizes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	p.t.Cleanup(func() { _ = unix.Munmap(file) })
	c, err := shm.AttachRing(shared.Files{Ring: fds[0], Submissions: fds[1], Completions: fds[2]})
	if err != nil {
		return nil, err
	}
	p.t.Cleanup(func() { _ = c.Close() })
	p.credits = reply.Credits
	at := transport.Address{NID: nid, PID: lnet.PIDLustre, Portal: portal, TMID: uint16(reply.TMID)}
	return &ring{Client: c, peer: p, file: file, handle: reply.Handle, at: at}, nil
}

// submit writes submissions and wakes lnetd.
func (r *ring) submit(all ...shm.Submission) {
	r.peer.t.Helper()
	for i := range all {
		if ok, err := r.Submissions.Put(&all[i]); !ok {
			r.peer.t.Fatalf("submission %d does not fit: %v", i, err)
		}
	}
	r.Submissions.Publish()
	r.Submissions.Ring()
	r.submitted += uint64(len(all))
}

// asleep waits until lnetd sleeps on the ring.
func (r *ring) asleep() {
	r.peer.t.Helper()
	const sqSleeping = 320 // transport 9.4
	flag := (*atomic.Uint32)(unsafe.Pointer(&r.file[sqSleeping]))
	eventually(r.peer.t, "lnetd sleeps", func() bool { return flag.Load() != 0 })
}

// begin submits operations and waits until they have reached the Core. That is so when a NOP that was
// submitted after them was read.
func (r *ring) begin(all ...shm.Submission) {
	r.peer.t.Helper()
	r.submit(all...)
	r.taken()
	r.submit(shm.Submission{Opcode: shm.OpNop})
	r.taken()
}

// taken waits until all submissions have been read.
func (r *ring) taken() {
	r.peer.t.Helper()
	eventually(r.peer.t, "all is taken out", func() bool {
		var s protocol.Counters
		r.peer.must(&protocol.StatsGet{Handle: r.handle}, &s)
		return s.Submissions == r.submitted
	})
}

// next waits for a completion.
func (r *ring) next() shm.Completion {
	r.peer.t.Helper()
	until := time.Now().Add(patience)
	for {
		var c shm.Completion
		ok, err := r.Completions.Next(&c)
		if err != nil {
			r.peer.t.Fatal(err)
		}
		if ok {
			if r.Completions.ReleaseAndClaim() {
				r.Submissions.Wake(r.Submissions.ClaimAnyway())
			}
			return c
		}
		if err := r.Completions.Wait(until); err != nil {
			r.peer.t.Fatal(err)
		}
		if time.Now().After(until) {
			r.peer.t.Fatal("waited in vain for a completion")
		}
	}
}

// to sets the destination of a submission.
func to(s shm.Submission, a transport.Address) shm.Submission {
	s.Peer, s.PID, s.Portal, s.TMID = a.NID, a.PID, a.Portal, uint32(a.TMID)
	return s
}

// of sets the buffer of a submission.
func of(s shm.Submission, b protocol.BufRegisterReply, operation uint32) shm.Submission {
	s.Buffer, s.Generation, s.Operation = b.Index, b.Generation, operation
	return s
}

func isErrno(err error, want syscall.Errno) bool { return errors.Is(err, want) }

// listenStream listens with the wrong socket type.
func listenStream(t testing.TB, path string) *net.UnixListener {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// charged fails the test unless the client is charged with want, and its user with want and the
// connection.
func (w *world) charged(p *peer, want amounts) {
	w.t.Helper()
	c := w.client(p)
	w.server.users.mu.Lock()
	defer w.server.users.mu.Unlock()
	want[ofConnections] = 1
	if got := *w.server.users.all[c.process.UID]; c.usage != want || got != want {
		w.t.Errorf("the client is charged with %v, its user with %v; want %v", c.usage, got, want)
	}
}
