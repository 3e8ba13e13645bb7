package inproc

import (
	"context"
	"errors"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/memory"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/transport"
)

// fakeNode is an engine that records calls, with events created by the test.
type fakeNode struct {
	nids  []lnet.NID
	table *portals.Table // for claims
	// attachErr to getErr are the results of calls.
	attachErr, bindErr, putErr, getErr error
	// onUnlink, unless nil, creates the events of Unlink. unlinkErr is its result.
	onUnlink  func(d *descriptor)
	unlinkErr error
	// onAttach, unless nil, is called before Attach returns.
	onAttach func()
	// onPut, unless nil, creates events before Put returns.
	onPut func(d *descriptor)

	// registerErr is the result of Register after the given number of calls.
	registerErr error
	registers   int

	registered  []*memory.Region
	descriptors []*descriptor
	unlinked    []lnet.Handle
	atClose     []func()
	forgotten   int
}

// descriptor is an MD, with its purpose.
type descriptor struct {
	handle lnet.Handle
	md     portals.MD
	entry  *portals.Entry // if it is attached
	to     lnet.ProcessID // if it is bound
	put    *node.PutOptions
	get    *node.GetOptions
}

func newFakeNode() *fakeNode {
	return &fakeNode{nids: []lnet.NID{lnet.LoopbackNID, here.NID}, table: portals.New(portals.Config{})}
}

func (n *fakeNode) PID() lnet.PID { return lnet.PIDLustre }

func (n *fakeNode) NIs() (infos []node.NIInfo) {
	for _, nid := range n.nids {
		infos = append(infos, node.NIInfo{NID: nid})
	}
	return infos
}

func (n *fakeNode) Register(_ context.Context, b []byte) (*memory.Region, error) {
	if n.registerErr != nil {
		if n.registers == 0 {
			return nil, n.registerErr
		}
		n.registers--
	}
	r := memory.NewRegion(b, nil)
	n.registered = append(n.registered, r)
	return r, nil
}

func (n *fakeNode) AtClose(f func()) func() {
	n.atClose = append(n.atClose, f)
	return func() { n.forgotten++ }
}

func (n *fakeNode) Claim(portal uint32, bits, ignore uint64) (*portals.Claim, error) {
	return n.table.Claim(portal, bits, ignore)
}

func (n *fakeNode) Unclaim(c *portals.Claim) { c.Release() }

func (n *fakeNode) add(md portals.MD) *descriptor {
	d := &descriptor{handle: lnet.Handle{Interface: 1, Object: uint64(len(n.descriptors))}, md: md}
	n.descriptors = append(n.descriptors, d)
	return d
}

func (n *fakeNode) Attach(e portals.Entry, md portals.MD) (lnet.Handle, error) {
	if n.attachErr != nil {
		return lnet.NoHandle, n.attachErr
	}
	d := n.add(md)
	d.entry = &e
	if n.onAttach != nil {
		n.onAttach()
	}
	return d.handle, nil
}

func (n *fakeNode) Bind(md portals.MD) (lnet.Handle, error) {
	if n.bindErr != nil {
		return lnet.NoHandle, n.bindErr
	}
	return n.add(md).handle, nil
}

func (n *fakeNode) Put(h lnet.Handle, to lnet.ProcessID, o node.PutOptions) error {
	d := n.descriptors[h.Object]
	d.to, d.put = to, &o
	if n.onPut != nil {
		n.onPut(d)
	}
	return n.putErr
}

func (n *fakeNode) Get(h lnet.Handle, to lnet.ProcessID, o node.GetOptions) error {
	d := n.descriptors[h.Object]
	d.to, d.get = to, &o
	return n.getErr
}

func (n *fakeNode) Unlink(h lnet.Handle) error {
	n.unlinked = append(n.unlinked, h)
	if n.onUnlink != nil {
		n.onUnlink(n.descriptors[h.Object])
	}
	return n.unlinkErr
}

// last returns the newest descriptor.
func (n *fakeNode) last() *descriptor { return n.descriptors[len(n.descriptors)-1] }

// fire delivers an event of the descriptor.
func (d *descriptor) fire(e portals.Event) {
	e.MD = d.handle
	d.md.Handler.HandleEvent(&e)
}

// unlink delivers the event of Unlink for an idle descriptor.
func (d *descriptor) unlink() { d.fire(portals.Event{Type: portals.EventUnlink, Unlinked: true}) }

var (
	here  = transport.Address{NID: lnet.NIDFromNumber(2<<16, 1), PID: lnet.PIDLustre, Portal: 34, TMID: 12}
	there = transport.Address{NID: lnet.NIDFromNumber(2<<16, 2), PID: lnet.PIDLustre, Portal: 35, TMID: 7}
)

// stage is a TM on a fake node.
type stage struct {
	t      testing.TB
	node   *fakeNode
	domain *domain
	tm     *queuedTM
}

func newStage(t testing.TB) *stage {
	t.Helper()
	s := &stage{t: t, node: newFakeNode()}
	s.domain = openOn(t, newCore(s.node))
	s.tm = s.start(here)
	return s
}

func openOn(t testing.TB, c *Core) *domain {
	t.Helper()
	d, err := c.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return d.(*domain)
}

func (s *stage) start(a transport.Address) *queuedTM {
	s.t.Helper()
	c, err := s.domain.StartTM(s.t.Context(), a, 16)
	if err != nil {
		s.t.Fatal(err)
	}
	return c.(*queuedTM)
}

// buffer registers segments of the given lengths.
func (s *stage) buffer(lengths ...int) *buffer {
	s.t.Helper()
	var segments [][]byte
	for _, n := range lengths {
		segments = append(segments, make([]byte, n))
	}
	return register(s.t, s.domain, segments...)
}

func register(t testing.TB, d *domain, segments ...[]byte) *buffer {
	t.Helper()
	b, err := d.Register(t.Context(), segments, new(int))
	if err != nil {
		t.Fatal(err)
	}
	return b.(*buffer)
}

// submit submits one op, and returns its descriptor.
func (s *stage) submit(op transport.Op) *descriptor {
	s.t.Helper()
	if n, err := s.tm.Submit([]transport.Op{op}); n != 1 || err != nil {
		s.t.Fatal(n, err)
	}
	return s.node.last()
}

// reap returns all completions.
func (s *stage) reap() []transport.Completion {
	cs := make([]transport.Completion, 32)
	return cs[:s.tm.Reap(cs)]
}

// one returns the only completion.
func (s *stage) one() transport.Completion {
	s.t.Helper()
	cs := s.reap()
	if len(cs) != 1 {
		s.t.Fatalf("%d completions, not one: %+v", len(cs), cs)
	}
	return cs[0]
}

// op returns an op on b with sequence number 1, with the fields that the engine sets.
func op(q transport.QueueType, b *buffer) transport.Op {
	o := transport.Op{Queue: q, Buffer: b, Sequence: 1}
	switch q {
	case transport.MsgRecv:
		o.MinReceiveSize, o.MaxMessages = 1, 4
	case transport.MsgSend:
		o.Peer, o.Length = there, b.memory.Length
	case transport.PassiveBulkRecv:
		o.MatchBits = transport.MakeMatchBits(here.TMID, 9)
	case transport.PassiveBulkSend:
		o.MatchBits, o.Length = transport.MakeMatchBits(here.TMID, 9), b.memory.Length
	default:
		o.Peer, o.MatchBits, o.Length = there, transport.MakeMatchBits(there.TMID, 5), b.memory.Length
	}
	return o
}

// errnoIn returns the errno that an error matches, or 0 for nil.
func errnoIn(t testing.TB, err error) syscall.Errno {
	t.Helper()
	if err == nil {
		return 0
	}
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		t.Errorf("%v has no errno", err)
	}
	return errno
}
