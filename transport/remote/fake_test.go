package remote

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory/shared"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/remote/protocol"
	"github.com/lnetd/lnetd/transport/shm"
)

// fake is an lnetd that grants all requests of one connection, and leaves the rings to the test.
type fake struct {
	t    testing.TB
	path string
	core *Core

	socket *net.UnixConn
	over   chan struct{} // closed when the connection has ended

	mu sync.Mutex // guards the fields below
	// answer, if not nil, can replace the reply to a request by a record. It returns false to get the
	// default reply.
	answer func(h protocol.Header, r protocol.Request) (record []byte, mine bool)
	// sending, if not nil, is called before each default reply is sent.
	sending  func()
	hello    *protocol.Hello
	requests []protocol.Opcode
	ranges   [][]protocol.Range // of each buffer
	areas    map[uint32]*shared.Memory
	tms      map[uint32]*shm.Host
	next     uint32 // next name
}

const (
	fakeDescriptor = 48
	fakeNow        = 1 << 62 // of another time namespace
)

var fakeNID = mustNID("10.1.0.1@tcp")

func mustNID(s string) lnet.NID {
	nid, err := lnet.ParseNID(s)
	if err != nil {
		panic(err)
	}
	return nid
}

// newFake listens, and returns a fake with a Core for it.
func newFake(t testing.TB, c Config) *fake {
	t.Helper()
	f := &fake{
		t: t, path: filepath.Join(testenv.SocketDir(t), "s"), over: make(chan struct{}),
		areas: make(map[uint32]*shared.Memory), tms: make(map[uint32]*shm.Host),
	}
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: f.path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(f.over)
		conn, err := l.AcceptUnix()
		_ = l.Close()
		if err == nil {
			f.mu.Lock()
			f.socket = conn
			f.mu.Unlock()
			f.serve(conn)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-f.over
		for _, m := range f.areas {
			_ = m.Close()
		}
		for _, h := range f.tms {
			_ = h.Close()
		}
	})
	c.Path = f.path
	f.core = New(c)
	f.core.exchange = newExchange() // separate limits for each test
	return f
}

func (f *fake) serve(conn *net.UnixConn) {
	b, control := make([]byte, protocol.MaxRecord), make([]byte, 64)
	for {
		n, m, _, _, err := conn.ReadMsgUnix(b, control)
		if err != nil {
			return
		}
		fds, err := unixRights(control[:m])
		if err != nil {
			f.t.Error(err)
		}
		h, r, err := protocol.DecodeRequest(b[:n])
		if err != nil {
			f.t.Errorf("a request that makes no sense: %v", err)
			return
		}
		f.mu.Lock()
		f.requests = append(f.requests, h.Opcode)
		answer := f.answer
		f.mu.Unlock()
		if answer != nil {
			if record, mine := answer(h, r); mine {
				closeAll(fds)
				if record != nil {
					f.send(record)
				}
				continue
			}
		}
		f.agree(h, r, fds)
	}
}

// agree sends the default reply to a request.
func (f *fake) agree(h protocol.Header, r protocol.Request, fds []int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var reply interface{ Append([]byte) []byte } = &protocol.Empty{}
	var out []int
	switch r := r.(type) {
	case *protocol.Hello:
		f.hello = r
		reply = helloReply(r)
	case *protocol.NIDsGet:
		reply = &protocol.NIDsReply{NIDs: []lnet.NID{fakeNID, lnet.LoopbackNID}}
	case *protocol.AreaAdd:
		m, err := shared.Adopt(fds[0], int64(r.Size))
		if err != nil {
			f.t.Error(err)
		}
		f.next++
		f.areas[f.next] = m
		reply = &protocol.AreaAddReply{Area: f.next}
	case *protocol.AreaDel:
		_ = f.areas[r.Area].Close()
		delete(f.areas, r.Area)
	case *protocol.BufRegister:
		f.ranges = append(f.ranges, r.Ranges)
		reply = &protocol.BufRegisterReply{Index: uint32(len(f.ranges) - 1), Generation: 7}
	case *protocol.TMStart:
		n := int(protocol.Granted(r.Completions))
		host, files, err := shm.CreateRing(shared.Sizes{Submissions: 4 * n, Completions: n})
		if err != nil {
			f.t.Error(err)
		}
		defer files.Close()
		out = []int{files.Ring, files.Submissions, files.Completions}
		f.next++
		f.tms[f.next] = host
		reply = &protocol.TMStartReply{Handle: f.next, TMID: r.TMID % protocol.DynamicTMID, Completions: uint32(n),
			Credits: protocol.Credits(uint32(n))}
		if r.TMID == protocol.DynamicTMID {
			reply.(*protocol.TMStartReply).TMID = protocol.DynamicTMID - 1
		}
	case *protocol.TMStop:
		_ = f.tms[r.Handle].Close()
		delete(f.tms, r.Handle)
		reply = &protocol.Counters{}
	case *protocol.StatsGet:
		reply = &protocol.Counters{Submissions: 1, Completions: 2, BellWrites: 3, BellReads: 4, Requests: 5}
	}
	if f.sending != nil {
		f.sending()
	}
	f.send(must(f.t, reply, h), out...)
}

// must returns the record of a reply.
func must(t testing.TB, reply interface{ Append([]byte) []byte }, h protocol.Header) []byte {
	b, err := protocol.AppendReply(nil, h, reply.(protocol.Body))
	if err != nil {
		t.Error(err)
	}
	return b
}

func helloReply(r *protocol.Hello) *protocol.HelloReply {
	return &protocol.HelloReply{
		Version: protocol.Version, Features: (r.Wanted | r.Required) & protocol.Implemented,
		Limits:      protocol.Limits{BufferSize: 1 << 20, SegmentSize: 4096, Segments: 256, DescriptorSize: fakeDescriptor},
		Quotas:      protocol.Quotas{TMs: 64, Buffers: 1 << 14, Areas: 64, RingEntries: 1 << 16, Bytes: 1 << 30},
		Incarnation: 1, Now: fakeNow, Connection: 9,
	}
}

// send sends a record. The other side may be gone.
func (f *fake) send(record []byte, fds ...int) {
	var with []byte
	if len(fds) > 0 {
		with = unix.UnixRights(fds...)
	}
	_, _, err := f.socket.WriteMsgUnix(record, with, nil)
	if err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, net.ErrClosed) {
		f.t.Error(err)
	}
}

// notify sends a notice.
func (f *fake) notify(n protocol.Notice) { f.send(protocol.AppendNotice(nil, &n)) }

// die closes the connection and the rings, like the end of a process.
func (f *fake) die() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for handle, h := range f.tms {
		_ = h.Close()
		delete(f.tms, handle)
	}
	_ = f.socket.Close()
}

// answers sets the function that is called for each request. The function returns the reply, or nil for no
// reply; if mine is false, the fake sends the default reply.
func (f *fake) answers(answer func(h protocol.Header, r protocol.Request) (record []byte, mine bool)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer = answer
}

// count returns the number of requests with an opcode.
func (f *fake) count(o protocol.Opcode) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.requests {
		if r == o {
			n++
		}
	}
	return n
}

// open returns a domain that ends with the test, with everything left in it.
func (f *fake) open() *domain {
	f.t.Helper()
	d, err := f.core.Open(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { d.(*domain).connection.close() })
	return d.(*domain)
}

// start starts a TM, and returns the TM and lnetd's end of its rings.
func (f *fake) start(d *domain) (*tm, *shm.Host) {
	f.t.Helper()
	c, err := d.StartTM(f.t.Context(), transport.Address{NID: fakeNID, PID: lnet.PIDLustre, Portal: 34, TMID: 5}, 32)
	if err != nil {
		f.t.Fatal(err)
	}
	t := c.(*tm)
	f.t.Cleanup(func() {
		if !t.stopped {
			t.gate.shut()
		}
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	return t, f.tms[t.handle]
}

// buffer returns a buffer of n bytes. Its token is its index.
func (f *fake) buffer(d *domain, n int) *buffer {
	f.t.Helper()
	b, err := d.Alloc(f.t.Context(), n)
	if err != nil {
		f.t.Fatal(err)
	}
	token := new(int)
	r, err := d.Register(f.t.Context(), [][]byte{b}, token)
	if err != nil {
		f.t.Fatal(err)
	}
	*token = int(r.(*buffer).index)
	return r.(*buffer)
}

// taken returns all unread submissions.
func taken(t testing.TB, h *shm.Host) (all []shm.Submission) {
	t.Helper()
	defer h.Submissions.Release()
	for {
		var s shm.Submission
		ok, err := h.Submissions.Next(&s)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return all
		}
		all = append(all, s)
	}
}

// complete puts completions into the ring.
func complete(t testing.TB, h *shm.Host, all ...shm.Completion) {
	t.Helper()
	for i := range all {
		if ok, err := h.Completions.Put(&all[i]); !ok || err != nil {
			t.Errorf("completion %d: %v, %v", i, ok, err)
		}
	}
	h.Completions.Publish()
	h.Completions.Ring()
}

// submit submits ops.
func submit(t testing.TB, to *tm, ops ...transport.Op) {
	t.Helper()
	if n, err := to.Submit(ops); n != len(ops) || err != nil {
		t.Fatalf("%d of %d ops: %v", n, len(ops), err)
	}
}

// reap returns all completions.
func reap(of *tm) (all []transport.Completion) {
	for {
		var c [3]transport.Completion
		n := of.Reap(c[:])
		if n == 0 {
			return all
		}
		all = append(all, c[:n]...)
	}
}

// next waits for a completion.
func next(t testing.TB, of *tm) transport.Completion {
	t.Helper()
	var c [1]transport.Completion
	for of.Reap(c[:]) == 0 {
		of.Wait(forever)
	}
	return c[0]
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// forever means no deadline.
var forever time.Time

// begin begins a call with a context that the test can end.
func begin(t testing.TB, f func(ctx context.Context) error) (end context.CancelFunc, result chan error) {
	ctx, cancel := context.WithCancel(t.Context())
	result = make(chan error, 1)
	go func() { result <- f(ctx) }()
	return cancel, result
}

// mustFD returns a new descriptor.
func mustFD(t testing.TB) int {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		t.Error(err)
	}
	return fd
}
