package mem_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/mem"
)

// These tests use the Core like the engine does. Package coretest has tests with an engine.

func nid(address uint32) lnet.NID {
	n, err := lnet.ParseNet("tcp")
	if err != nil {
		panic(err)
	}
	return lnet.NIDFromNumber(n, address)
}

var (
	nidA = nid(0x0a000001)
	nidB = nid(0x0a000002)
)

// pair is two hosts with a domain and a TM each.
type pair struct {
	t      *testing.T
	d      [2]transport.CoreDomain
	tm     [2]transport.CoreTM
	number uint32
}

func newPair(t *testing.T, c mem.Config) *pair {
	t.Helper()
	n := mem.New(c)
	p := &pair{t: t}
	for i, nid := range []lnet.NID{nidA, nidB} {
		p.d[i] = open(t, n.Host(nid))
		p.tm[i] = start(t, p.d[i], at(nid, 34, uint16(10+i)))
	}
	return p
}

func open(t *testing.T, c transport.Core) transport.CoreDomain {
	t.Helper()
	d, err := c.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func at(nid lnet.NID, portal uint32, id uint16) transport.Address {
	return transport.Address{NID: nid, PID: lnet.PIDLustre, Portal: portal, TMID: id}
}

func start(t *testing.T, d transport.CoreDomain, a transport.Address) transport.CoreTM {
	t.Helper()
	tm, err := d.StartTM(t.Context(), a, 64)
	if err != nil {
		t.Fatal(err)
	}
	return tm
}

// memory is a registered buffer with segments of the given lengths, filled with random bytes. Its token is
// a name.
type memory struct {
	core     transport.CoreBuffer
	segments [][]byte
}

func (p *pair) buffer(k int, name string, sizes ...int) *memory {
	p.t.Helper()
	m := &memory{}
	r := rand.NewChaCha8([32]byte{byte(len(sizes)), byte(k)})
	for _, n := range sizes {
		s := make([]byte, n)
		_, _ = r.Read(s)
		m.segments = append(m.segments, s)
	}
	var err error
	if m.core, err = p.d[k].Register(p.t.Context(), m.segments, name); err != nil {
		p.t.Fatal(err)
	}
	return m
}

func (m *memory) bytes() []byte { return bytes.Join(m.segments, nil) }

// submit submits ops to TM k after numbering them, and checks that they are accepted.
func (p *pair) submit(k int, ops ...transport.Op) {
	p.t.Helper()
	for i := range ops {
		if !ops[i].Cancel {
			p.number++
			ops[i].Sequence = p.number
		}
	}
	if n, err := p.tm[k].Submit(ops); n != len(ops) || err != nil {
		p.t.Fatalf("taken %d of %d: %v", n, len(ops), err)
	}
}

// expect checks that TM k has exactly these completions.
func (p *pair) expect(k int, want ...transport.Completion) {
	p.t.Helper()
	got := make([]transport.Completion, 64)
	got = got[:p.tm[k].Reap(got)]
	for i := range got {
		if time.Since(got[i].Time) > time.Minute {
			p.t.Errorf("completion %d is of %v", i, got[i].Time)
		}
		got[i].Time = time.Time{}
	}
	if d := gocmp.Diff(want, got, cmpopts.EquateErrors(), cmpopts.EquateEmpty(), gocmp.Comparer(func(a, b lnet.NID) bool { return a == b })); d != "" {
		p.t.Errorf("TM %d: (-want +got)\n%s", k, d)
	}
}

func (p *pair) receive(k int, m *memory, least, messages int) {
	p.t.Helper()
	p.submit(k, transport.Op{Queue: transport.MsgRecv, Buffer: m.core, MinReceiveSize: least, MaxMessages: messages})
}

func (p *pair) send(k int, m *memory, n int, to transport.Address) {
	p.t.Helper()
	p.submit(k, transport.Op{Queue: transport.MsgSend, Buffer: m.core, Length: n, Peer: to})
}

// Messages fill the oldest buffer consecutively, across segments, until it has received its number of
// messages or has too little space left. Then the next buffer is used. Each message has a completion with
// its sender.
//
// transport-tests H (69)-(70)
// transport 3.11 (1)-(2), 6.7 (4), 6.12
func TestMessages(t *testing.T) {
	p := newPair(t, mem.Config{})
	first, second := p.buffer(0, "first", 7, 1, 100, 92), p.buffer(0, "second", 150)
	out := p.buffer(1, "out", 30, 30)
	p.receive(0, first, 60, 10) // 1
	p.receive(0, second, 60, 2) // 2
	to, from := p.tm[0].Address(), p.tm[1].Address()
	for _, n := range []int{60, 59, 58, 1, 50} { // 3 to 7
		p.send(1, out, n, to)
	}
	sent := func(seq uint32, n int) transport.Completion {
		return transport.Completion{Token: "out", Sequence: seq, Final: true, Length: n}
	}
	p.expect(1, sent(3, 60), sent(4, 59), sent(5, 58), sent(6, 1), sent(7, 50))
	p.expect(0,
		transport.Completion{Token: "first", Sequence: 1, Length: 60, Sender: from},
		transport.Completion{Token: "first", Sequence: 1, Length: 59, Offset: 60, Sender: from},
		transport.Completion{Token: "first", Sequence: 1, Length: 58, Offset: 119, Final: true, Sender: from},
		transport.Completion{Token: "second", Sequence: 2, Length: 1, Sender: from},
		transport.Completion{Token: "second", Sequence: 2, Length: 50, Offset: 1, Final: true, Sender: from})
	data := out.bytes()
	if want := bytes.Join([][]byte{data, data[:59], data[:58]}, nil); !bytes.Equal(first.bytes()[:177], want) {
		t.Error("the first buffer has other bytes")
	}
	if want := bytes.Join([][]byte{data[:1], data[:50]}, nil); !bytes.Equal(second.bytes()[:51], want) {
		t.Error("the second buffer has other bytes")
	}
}

// Bulk in both directions, matched by match bits, regardless of other buffers in the same list.
func TestBulk(t *testing.T) {
	p := newPair(t, mem.Config{})
	to := p.tm[0].Address()
	passive := map[transport.MatchBits]*memory{}
	for i := range transport.MatchBits(200) {
		m := p.buffer(0, "passive", 10, 20)
		passive[i] = m
		q := transport.PassiveBulkRecv
		if i%2 == 1 {
			q = transport.PassiveBulkSend
		}
		p.submit(0, transport.Op{Queue: q, Buffer: m.core, Length: 25, MatchBits: i})
	}
	active := p.buffer(1, "active", 15, 16)
	data := active.bytes()
	p.submit(1, transport.Op{Queue: transport.ActiveBulkSend, Buffer: active.core, Length: 30, MatchBits: 66, Peer: to})
	if !bytes.Equal(passive[66].bytes(), data[:30]) {
		t.Error("other bytes were put")
	}
	p.submit(1, transport.Op{Queue: transport.ActiveBulkRecv, Buffer: active.core, Length: 25, MatchBits: 67, Peer: to})
	if want := slices.Concat(passive[67].bytes()[:25], data[25:]); !bytes.Equal(active.bytes(), want) {
		t.Error("other bytes were got")
	}
	p.expect(0,
		transport.Completion{Token: "passive", Sequence: 67, Length: 30, Final: true},
		transport.Completion{Token: "passive", Sequence: 68, Length: 25, Final: true})
	p.expect(1,
		transport.Completion{Token: "active", Sequence: 201, Length: 30, Final: true},
		transport.Completion{Token: "active", Sequence: 202, Length: 25, Final: true})
}

// Failing operations end as with LNet, often without an error or not at all, or, on a strict network, with an
// error.
//
// transport 6.10
func TestErrors(t *testing.T) {
	elsewhere := nid(99)
	for _, c := range []struct {
		name string
		op   transport.Op // of TM 1
		// lossy and strict are the results. there is the result of the receive buffer and the passive ones
		// of TM 0 (0 means none). event is reported by TM 0.
		lossy, strict error
		hangs         bool // LNet never answers
		there, event  error
	}{
		{name: "no host", op: transport.Op{Queue: transport.MsgSend, Peer: at(elsewhere, 34, 10)},
			lossy: syscall.EHOSTUNREACH, strict: syscall.ENETUNREACH},
		{name: "no host to get from", op: transport.Op{Queue: transport.ActiveBulkRecv, Peer: at(elsewhere, 34, 10)},
			lossy: syscall.EHOSTUNREACH, strict: syscall.ENETUNREACH},
		{name: "no TM", op: transport.Op{Queue: transport.MsgSend, Peer: at(nidA, 34, 12)}, strict: syscall.ENETUNREACH},
		{name: "portal is not within 0 to 63", op: transport.Op{Queue: transport.MsgSend, Peer: at(nidA, 99, 10)}, strict: syscall.ENETUNREACH},
		{name: "no receive buffer", op: transport.Op{Queue: transport.MsgSend, Peer: at(nidA, 34, 10)},
			strict: syscall.ENOBUFS, event: syscall.ENOBUFS},
		{name: "too long", op: transport.Op{Queue: transport.MsgSend, Length: 60, Peer: at(nidA, 34, 10)},
			strict: syscall.EMSGSIZE, there: syscall.EMSGSIZE},
		{name: "nothing to fill", op: transport.Op{Queue: transport.ActiveBulkSend, MatchBits: 7, Peer: at(nidA, 34, 10)},
			strict: syscall.ENOENT},
		{name: "nothing to fetch", op: transport.Op{Queue: transport.ActiveBulkRecv, MatchBits: 7, Peer: at(nidA, 34, 10)},
			strict: syscall.ENOENT, hangs: true},
		{name: "wrong direction", op: transport.Op{Queue: transport.ActiveBulkSend, MatchBits: 1, Peer: at(nidA, 34, 10)},
			strict: syscall.EPERM},
		{name: "wrong direction back", op: transport.Op{Queue: transport.ActiveBulkRecv, MatchBits: 2, Peer: at(nidA, 34, 10)},
			strict: syscall.EPERM, hangs: true},
		{name: "too long to fill", op: transport.Op{Queue: transport.ActiveBulkSend, MatchBits: 2, Length: 60, Peer: at(nidA, 34, 10)},
			strict: syscall.EFBIG, there: syscall.EFBIG},
		{name: "too long to fetch", op: transport.Op{Queue: transport.ActiveBulkRecv, MatchBits: 1, Length: 60, Peer: at(nidA, 34, 10)},
			strict: syscall.EFBIG, there: syscall.EFBIG, hangs: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, strict := range []bool{false, true} {
				wrong(t, c.op, strict, map[bool]error{false: c.lossy, true: c.strict}[strict], c.hangs, c.there, c.event)
			}
		})
	}
}

// wrong submits a failing op at TM 1, and checks the results.
func wrong(t *testing.T, op transport.Op, strict bool, want error, hangs bool, there, event error) {
	t.Helper()
	p := newPair(t, mem.Config{Strict: strict})
	if event == nil { // otherwise there is no buffer
		p.receive(0, p.buffer(0, "passive", 100), 50, 1)
		p.submit(0,
			transport.Op{Queue: transport.PassiveBulkSend, Buffer: p.buffer(0, "passive", 100).core, Length: 50, MatchBits: 1},
			transport.Op{Queue: transport.PassiveBulkRecv, Buffer: p.buffer(0, "passive", 50).core, MatchBits: 2})
	}
	if op.Length == 0 {
		op.Length = 10
	}
	b := p.buffer(1, "b", 100)
	op.Buffer = b.core
	before := b.bytes()
	p.submit(1, op)
	seq := p.number
	if hangs && !strict {
		p.expect(1)
		p.submit(1, transport.Op{Cancel: true, Buffer: b.core, Sequence: seq})
		want = syscall.ECANCELED
	}
	c := transport.Completion{Token: "b", Sequence: seq, Final: true, Err: want}
	if want == nil {
		c.Length = op.Length
	}
	p.expect(1, c)
	if !bytes.Equal(b.bytes(), before) {
		t.Error("the buffer was written to")
	}
	got := make([]transport.Completion, 2)
	got = got[:p.tm[0].Reap(got)]
	if !strict || there == nil && event == nil {
		if len(got) > 0 {
			t.Errorf("strict %v: the other side has heard %+v", strict, got)
		}
		return
	}
	if len(got) != 1 || got[0].Final != (there != nil) || !errors.Is(got[0].Err, cmp.Or(there, event)) {
		t.Errorf("strict: the other side has heard %+v, not %v or %v", got, there, event)
	}
}

// A cancellation ends a waiting op: the one that it identifies, and no other. A TM with ops cannot be
// stopped.
//
// transport 6.10
func TestCancel(t *testing.T) {
	p := newPair(t, mem.Config{})
	b := p.buffer(0, "b", 100)
	cancel := func(seq uint32) { p.submit(0, transport.Op{Cancel: true, Buffer: b.core, Sequence: seq}) }
	cancel(0)
	p.receive(0, b, 50, 5) // 1
	if err := b.core.Deregister(); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("deregistered while it waits: %v", err)
	}
	if err := p.tm[0].Stop(); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("stopped with an op: %v", err)
	}
	p.send(1, p.buffer(1, "out", 10), 10, p.tm[0].Address()) // 2
	cancel(0)
	p.expect(0, transport.Completion{Token: "b", Sequence: 1, Length: 10, Sender: p.tm[1].Address()})
	cancel(1)
	cancel(1)
	p.expect(0, transport.Completion{Token: "b", Sequence: 1, Final: true, Err: syscall.ECANCELED})
	p.receive(0, b, 50, 5) // 3
	cancel(1)
	p.expect(0)
	if n, err := p.tm[0].Submit([]transport.Op{{Queue: transport.PassiveBulkRecv, Buffer: b.core}}); n != 0 || !errors.Is(err, syscall.EBUSY) {
		t.Errorf("a second op of a buffer: taken %d, %v", n, err)
	}
	cancel(3)
	p.expect(0, transport.Completion{Token: "b", Sequence: 3, Final: true, Err: syscall.ECANCELED})
	if err := p.tm[0].Stop(); err != nil {
		t.Error(err)
	}
	if err := p.tm[0].Stop(); err != nil {
		t.Error(err)
	}
	if n, err := p.tm[0].Submit([]transport.Op{{Queue: transport.MsgRecv, Buffer: b.core}}); n != 0 || !errors.Is(err, syscall.ESHUTDOWN) {
		t.Errorf("a stopped TM: taken %d, %v", n, err)
	}
}

// Invalid ops are refused, and those before them are accepted.
//
// r.m0.net.xprt.lnet.dev.assert-free
func TestRefusals(t *testing.T) {
	p := newPair(t, mem.Config{})
	b, other := p.buffer(0, "b", 100), p.buffer(1, "other", 100)
	to := p.tm[1].Address()
	for _, op := range []transport.Op{
		{Queue: transport.MsgRecv, Buffer: b.core, MinReceiveSize: 101, MaxMessages: 1},
		{Queue: transport.MsgRecv, Buffer: b.core, MinReceiveSize: 0, MaxMessages: 1},
		{Queue: transport.MsgRecv, Buffer: b.core, MinReceiveSize: 1},
		{Queue: transport.MsgSend, Buffer: b.core, Length: 101, Peer: to},
		{Queue: transport.PassiveBulkSend, Buffer: b.core, Length: 0},
		{Queue: transport.ActiveBulkRecv, Buffer: b.core, Length: 101, Peer: to},
		{Queue: transport.QueueTypes, Buffer: b.core},
		{Queue: transport.MsgSend, Buffer: other.core, Length: 1, Peer: to},
		{Queue: transport.MsgSend, Length: 1, Peer: to},
	} {
		n, err := p.tm[0].Submit([]transport.Op{{Queue: transport.MsgSend, Buffer: b.core, Length: 1, Peer: to}, op})
		if n != 1 || !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%+v: taken %d, %v", op, n, err)
		}
		p.expect(0, transport.Completion{Token: "b", Final: true, Length: 1})
	}
}

// Valid addresses, addresses in use, and dynamic numbers from the top down.
//
// transport-tests N (108)
// transport 3.16, 6.2 (1)-(2), 6.3 (1)-(4)
func TestAddresses(t *testing.T) {
	n := mem.New(mem.Config{})
	d := open(t, n.Host(nidA, nidB))
	other := open(t, n.Host()) // another host, without other hosts
	nids, err := d.NIDs(t.Context())
	if err != nil || len(nids) != 3 || nids[0] != nidA || nids[1] != nidB || nids[2] != lnet.LoopbackNID {
		t.Errorf("NIDs %v, %v", nids, err)
	}
	refused := func(d transport.CoreDomain, a transport.Address, want error) {
		t.Helper()
		if _, err := d.StartTM(t.Context(), a, 1); !errors.Is(err, want) {
			t.Errorf("start at %+v: %v, not %v", a, err, want)
		}
	}
	start(t, d, at(nidA, 34, 10))
	refused(d, at(nidA, 34, 10), syscall.EADDRINUSE)
	refused(d, at(nidB, 34, 10), syscall.EADDRINUSE)
	refused(d, at(lnet.LoopbackNID, 34, 10), syscall.EADDRINUSE)
	start(t, d, at(nidB, 34, 11))
	start(t, d, at(nidB, 35, 10))
	start(t, other, at(lnet.LoopbackNID, 34, 10))
	refused(other, at(nidA, 34, 12), syscall.ENOENT)
	refused(d, transport.Address{NID: nidA, PID: 42, Portal: 34, TMID: 1}, syscall.ENOENT)
	refused(d, at(nidA, 64, 1), syscall.EINVAL)

	var tms []transport.CoreTM
	for want := uint16(transport.MaxTMID); want > 0; want-- {
		tm := start(t, d, at(nidA, 40, transport.Dynamic))
		if got := tm.Address(); got != at(nidA, 40, want) {
			t.Fatalf("the TM is at %+v, not %d", got, want)
		}
		tms = append(tms, tm)
	}
	refused(d, at(nidA, 40, transport.Dynamic), syscall.EADDRNOTAVAIL)
	if err := tms[1].Stop(); err != nil {
		t.Fatal(err)
	}
	if got := start(t, d, at(nidB, 40, transport.Dynamic)).Address().TMID; got != 4094 {
		t.Errorf("number %d was not taken again, but %d was", 4094, got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.StartTM(ctx, at(nidA, 34, 99), 1); !errors.Is(err, context.Canceled) {
		t.Errorf("started though nobody waits: %v", err)
	}
}

// A host whose NID is invalid or in use cannot be opened.
func TestHosts(t *testing.T) {
	n := mem.New(mem.Config{})
	h := n.Host(nidA)
	open(t, h)
	open(t, h)
	for _, c := range []struct {
		nid  lnet.NID
		want error
	}{{nidA, syscall.EADDRINUSE}, {lnet.LoopbackNID, syscall.EINVAL}, {lnet.AnyNID, syscall.EINVAL}, {lnet.NID{}, syscall.EINVAL}} {
		if _, err := n.Host(nidB, c.nid).Open(t.Context()); !errors.Is(err, c.want) {
			t.Errorf("a host with NID %v: %v, not %v", c.nid, err, c.want)
		}
	}
	open(t, n.Host(nidB)) // the refused host does not own this NID
}

// A host can reach itself by loopback. Others see TMs at loopback under the host's first NID, if it has
// one.
func TestLoopback(t *testing.T) {
	p := newPair(t, mem.Config{})
	p.tm[1] = start(t, p.d[1], at(lnet.LoopbackNID, 34, 99))
	for _, c := range []struct {
		to, from int
		nid      lnet.NID
	}{{0, 1, nidB}, {1, 1, lnet.LoopbackNID}} {
		p.receive(c.to, p.buffer(c.to, "in", 10), 10, 1)
		in := p.number
		to := p.tm[c.to].Address()
		p.send(c.from, p.buffer(c.from, "out", 10), 10, to)
		got := make([]transport.Completion, 4)
		got = got[:p.tm[c.to].Reap(got)]
		i := slices.IndexFunc(got, func(g transport.Completion) bool { return g.Sequence == in })
		if i < 0 || got[i].Sender != at(c.nid, 34, 99) {
			t.Errorf("completions %#v, not from %v", got, c.nid)
		}
	}
	alone := mem.New(mem.Config{})
	p.d[1] = open(t, alone.Host())
	open(t, alone.Host(nidA))
	p.tm[1] = start(t, p.d[1], at(lnet.LoopbackNID, 34, 1))
	p.send(1, p.buffer(1, "out", 10), 10, at(nidA, 34, 1))
	p.expect(1, transport.Completion{Token: "out", Sequence: p.number, Final: true, Err: syscall.EHOSTUNREACH})
}
