package tmpeer

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
)

const (
	bulkSize = 1 << 20
	// receivers is the number of buffers for messages, enough for several batches: a buffer that
	// has been sent back may wait to be added again while the next batch arrives. A message that
	// finds no buffer is lost.
	receivers = 64
)

// Peer is the TM to which a client talks. It sends back messages that begin with E, and fetches
// and fills the buffers that a P describes. It answers an A with a description of buffers to fetch
// and fill, and then with the result.
type Peer struct {
	// Address is the address of the TM, as transport.ParseAddress accepts it.
	Address string

	t       testing.TB
	tm      *transport.TransferMachine
	buffers []*transport.Buffer
	size    int // of a descriptor

	// The following fields are only used by callbacks, which run one at a time. bulk has the
	// buffers for ActiveBulkRecv, ActiveBulkSend, PassiveBulkSend and PassiveBulkRecv. The client
	// may learn that an operation is over before the callback here is called.
	bulk [4]*transport.Buffer
	into transport.Descriptor
	to   *transport.EndPoint // the sender of an A
}

// New starts a Peer at portal 34 with the number 7. The caller must call Stop.
func New(t testing.TB, core transport.Core, nid lnet.NID) *Peer {
	t.Helper()
	d, err := transport.NewDomain(t.Context(), core)
	if err != nil {
		t.Fatal(err)
	}
	p := &Peer{t: t, Address: nid.String() + ":12345:34:7", size: transport.DescriptorSize}
	if nid.IsLarge() {
		p.size = transport.LargeDescriptorSize
	}
	if p.tm, err = d.Open(t.Context(), p.Address, nil); err != nil {
		t.Fatal(err)
	}
	callbacks := &transport.Callbacks{
		transport.MsgRecv: p.received, transport.MsgSend: p.sent,
		transport.ActiveBulkRecv: p.fetched, transport.ActiveBulkSend: p.check,
		transport.PassiveBulkSend: p.check, transport.PassiveBulkRecv: p.filled,
	}
	buffer := func(size int) *transport.Buffer {
		b, err := d.Buffer(t.Context(), size)
		if err != nil {
			t.Fatal(err)
		}
		b.Callbacks = callbacks
		p.buffers = append(p.buffers, b)
		return b
	}
	for i := range p.bulk {
		p.bulk[i] = buffer(bulkSize)
	}
	for range receivers {
		b := buffer(512)
		b.Queue, b.MinReceiveSize, b.MaxMessages = transport.MsgRecv, 512, 1
		if err := p.tm.Add(b); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// Stop ends the Peer and frees its buffers.
func (p *Peer) Stop() {
	p.t.Helper()
	d := p.tm.Domain()
	if p.to != nil {
		p.to.Put()
	}
	errs := []error{p.tm.Shutdown(context.Background())}
	for _, b := range p.buffers {
		errs = append(errs, d.Free(b))
	}
	if err := errors.Join(append(errs, d.Close())...); err != nil {
		p.t.Error(err)
	}
}

// check fails the test if an operation failed, unless the peer is stopping.
func (p *Peer) check(e *transport.BufferEvent) {
	if e.Err != nil && !errors.Is(e.Err, syscall.ECANCELED) {
		p.t.Errorf("%v: %v", e.Buffer.Queue, e.Err)
	}
}

func (p *Peer) add(e *transport.BufferEvent, bs ...*transport.Buffer) {
	for _, b := range bs {
		if err := e.Add(b); err != nil {
			p.t.Errorf("add to %v: %v", b.Queue, err)
		}
	}
}

// send sends a message from a buffer.
func (p *Peer) send(e *transport.BufferEvent, b *transport.Buffer, to *transport.EndPoint, message []byte) {
	b.Queue, b.EndPoint, b.Length = transport.MsgSend, to, b.CopyIn(0, message)
	p.add(e, b)
}

func (p *Peer) received(e *transport.BufferEvent) {
	if e.Err != nil {
		p.check(e)
		return
	}
	m, b := bytes.Clone(e.Bytes()), e.Buffer
	switch {
	case len(m) == 1+2*p.size && m[0] == 'P':
		p.bulk[0].Queue, p.bulk[0].Descriptor = transport.ActiveBulkRecv, m[1:1+p.size]
		p.into = m[1+p.size:]
		p.add(e, p.bulk[0], b)
	case len(m) == 1 && m[0] == 'A':
		e.EndPoint.Get()
		p.to = e.EndPoint
		p.bulk[2].Queue, p.bulk[2].Length = transport.PassiveBulkSend, bulkSize
		p.bulk[3].Queue = transport.PassiveBulkRecv
		p.bulk[2].CopyIn(0, pattern(7, 0))
		// The descriptors must exist after the call, but Add of an event defers it.
		if n, err := p.tm.AddAll(p.bulk[2], p.bulk[3]); err != nil {
			p.t.Errorf("%d passive buffers: %v", n, err)
		}
		p.send(e, b, e.EndPoint, slices.Concat(m, p.bulk[2].Descriptor, p.bulk[3].Descriptor))
	default:
		p.send(e, b, e.EndPoint, m)
	}
}

// sent adds a buffer to the queue for messages again.
func (p *Peer) sent(e *transport.BufferEvent) {
	p.check(e)
	b := e.Buffer
	if b == p.bulk[0] {
		return // the result
	}
	b.Queue, b.EndPoint = transport.MsgRecv, nil
	if err := e.Add(b); err != nil && p.tm.State() == transport.StateStarted {
		p.t.Error(err)
	}
}

// fetched fills the client's buffer with the complement of the fetched data.
func (p *Peer) fetched(e *transport.BufferEvent) {
	p.check(e)
	if !bytes.Equal(e.Bytes(), pattern(1, 0)) {
		p.t.Errorf("%d bytes were fetched that are not the client's", e.Length)
	}
	p.bulk[1].Queue, p.bulk[1].Descriptor, p.bulk[1].Length = transport.ActiveBulkSend, p.into, bulkSize
	p.bulk[1].CopyIn(0, pattern(1, 0xff))
	p.add(e, p.bulk[1])
}

// filled reports to the client if the data was right.
func (p *Peer) filled(e *transport.BufferEvent) {
	if e.Err != nil {
		p.check(e)
		return
	}
	verdict := "ok"
	if !bytes.Equal(e.Bytes(), pattern(7, 0xff)) {
		verdict = "it is not what was asked for"
	}
	p.send(e, p.bulk[0], p.to, []byte(verdict))
}

// pattern returns bulk data that begins with seed, as the client generates it.
func pattern(seed int, xor byte) []byte {
	b := make([]byte, bulkSize)
	for i := range b {
		b[i] = byte(i*31+i>>12+seed) ^ xor
	}
	return b
}
