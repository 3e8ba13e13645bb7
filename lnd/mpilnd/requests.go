package mpilnd

import (
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"syscall"

	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
	"github.com/lnetd/lnetd/lnd/mpilnd/protocol"
)

// part is what a request does for its owner.
type part uint8

const (
	message  part = iota // sends a short message
	payload              // sends the payload of a large message
	answer               // sends or receives the answer to an optimized GET
	incoming             // receives the payload of a large message
	pooled               // receives a short message of any process
	discard              // receives what nothing waits for
)

// owner is notified of the completion of a request.
type owner interface {
	// completed may take over r.buf by setting it to nil.
	completed(r *request, done *boundary.Done)
}

// request is a request of MPI that is not complete.
type request struct {
	owner owner
	part  part
	comm  int
	p     *peer  // nil for pooled
	link  uint32 // the link that ends if the request of a control message fails
	tag   uint32 // of a payload that is discarded
	buf   []byte // memory of the driver that is released on completion, or nil
	turn  uint32 // how often the element was used
	used  bool
}

// requests are the requests that are not complete. They are identified by the index of an element and the number of its
// use. The zero value is empty.
type requests struct {
	all     []request
	free    []uint32
	current request // the one that complete is handling
}

// busy returns the number of requests.
func (t *requests) busy() int { return len(t.all) - len(t.free) }

// add adds a request and returns its ID.
func (t *requests) add(r request) uint64 {
	if len(t.free) == 0 {
		t.all = append(t.all, request{})
		t.free = append(t.free, uint32(len(t.all)-1))
	}
	k := t.free[len(t.free)-1]
	t.free = t.free[:len(t.free)-1]
	r.turn, r.used = t.all[k].turn+1, true
	t.all[k] = r
	return uint64(r.turn)<<32 | uint64(k)
}

// remove removes and returns the request with an ID. It returns false if no request has the ID.
func (t *requests) remove(id uint64) (r request, ok bool) {
	k, turn := uint32(id), uint32(id>>32)
	if int(k) >= len(t.all) || !t.all[k].used || t.all[k].turn != turn {
		return r, false
	}
	r = t.all[k]
	t.all[k] = request{turn: r.turn}
	t.free = append(t.free, k)
	return r, true
}

// complete handles a completion.
func (t *requests) complete(d *Driver, done *boundary.Done) {
	r := &t.current
	var ok bool
	if *r, ok = t.remove(done.ID); !ok {
		return
	}
	r.owner.completed(r, done)
	if r.buf != nil {
		d.memory.release(r.buf)
	}
	*r = request{}
}

// send starts to send b, which is r.buf or a part of it. On an error, r.buf is released.
func (d *Driver) send(r request, tag int, b []byte) error {
	id := d.requests.add(r)
	return d.started(id, d.config.Comms[r.comm].Send(r.p.at.Rank, tag, b, id))
}

// receive starts to receive into b. On an error, r.buf is released.
func (d *Driver) receive(r request, from, tag int, b []byte) (id uint64, err error) {
	id = d.requests.add(r)
	return id, d.started(id, d.config.Comms[r.comm].Receive(from, tag, b, id))
}

// started forgets a request that could not be started.
func (d *Driver) started(id uint64, err error) error {
	if err == nil {
		return nil
	}
	if r, _ := d.requests.remove(id); r.buf != nil {
		d.memory.release(r.buf)
	}
	return err
}

// cancel cancels a receive that is not complete. It completes in any case, perhaps with a message.
func (d *Driver) cancel(id uint64) {
	if d.broken != nil {
		return
	}
	if err := d.config.Comms[d.requests.all[uint32(id)].comm].Cancel(id); err != nil {
		_ = d.report(err)
	}
}

// cancelPool cancels the receives for short messages.
func (d *Driver) cancelPool() {
	for k, r := range d.requests.all {
		if r.used && r.part == pooled {
			d.cancel(uint64(r.turn)<<32 | uint64(k))
		}
	}
}

// discard receives the payload of a message that nothing waits for, if it was sent separately. Otherwise the send of the
// peer would never complete (mpilnd B.5 rule 4).
func (p *peer) discard(m *protocol.Message) {
	d := p.d
	if m.Type != protocol.LargePut || d.broken != nil {
		return
	}
	d.count.discarded.Add(1)
	b := d.memory.large(int(m.Length))
	r := request{owner: d, part: discard, comm: p.at.Comm, p: p, tag: m.Tag, buf: b}
	if _, err := d.receive(r, p.at.Rank, int(m.Tag), b[:m.Length]); err != nil {
		p.discarded(m.Tag, err)
	}
}

// discarded is called when the receive of a payload that nothing waits for has ended.
func (p *peer) discarded(tag uint32, err error) {
	if err != nil {
		_ = p.d.report(err)
		p.abandoned = append(p.abandoned, tag)
		return
	}
	p.gets.Release(tag) // does nothing for the tags of large messages
}

// postPool posts the receives for short messages that are missing.
func (d *Driver) postPool() error {
	for comm := range d.config.Comms {
		for ; d.ni.missing[comm] > 0; d.ni.missing[comm]-- {
			if err := d.postShort(comm); err != nil {
				return d.report(err)
			}
		}
	}
	return nil
}

// postShort posts a receive for a short message (MPI-21).
func (d *Driver) postShort(comm int) error {
	b := d.memory.shortBuffer()
	_, err := d.receive(request{owner: d, part: pooled, comm: comm, buf: b}, boundary.Any, protocol.ShortTag, b)
	return err
}

// completed implements owner for requests that belong to no message of a node.
func (d *Driver) completed(r *request, done *boundary.Done) {
	switch {
	case r.part == pooled:
		d.shortReceived(r, done)
	case r.part == discard:
		r.p.discarded(r.tag, done.Err)
	case done.Err == nil:
	case r.link == r.p.local && r.link != 0:
		r.p.fault(done.Err)
	default:
		_ = d.report(done.Err)
	}
}

// report counts, logs and returns an error of MPI.
func (d *Driver) report(err error) error {
	d.count.failures.Add(1)
	d.log.Report(boundedlog.Line{Level: slog.LevelWarn, Text: "MPI request failed"}, slog.Any("cause", err))
	if f := d.config.Fault; f != nil {
		f(err)
	}
	return err
}

// failed returns the error of a message whose request has failed.
func failed(err error) error { return fmt.Errorf("%w: %w", syscall.EIO, err) }

// Drain receives and discards short messages that have arrived since the interface was closed, such as the BYE of a peer
// that has closed its interface at the same time. Some libraries complain about messages that nothing has received. The
// goroutine of Run may call it when Run has returned nil. It makes sense after a barrier of all processes.
func (d *Driver) Drain() error {
	b := d.memory.shortBuffer()
	var done [1]boundary.Done
	for _, comm := range d.config.Comms {
		for received := true; received; received = !done[0].Cancelled && done[0].Err == nil {
			id := d.requests.add(request{})
			if err := errors.Join(comm.Receive(boundary.Any, protocol.ShortTag, b, id), comm.Cancel(id)); err != nil {
				return err
			}
			for done[0] = (boundary.Done{}); done[0].ID != id; { // former requests may complete too
				if _, err := d.config.MPI.Poll(done[:], closeWait); err != nil {
					return err
				}
				d.requests.remove(done[0].ID)
			}
		}
	}
	return nil
}

// buffers are free memory of the driver: for short messages, and by powers of 2 for payloads.
type buffers struct {
	short  int // length of a buffer for short messages
	shorts [][]byte
	larges [bits.UintSize][][]byte
}

// The most free buffers of one size.
const (
	keptShorts = 4096
	keptLarges = 64
)

// shortSize returns the length of a buffer for short messages.
func shortSize(payload int) int { return protocol.HeadSize + payload }

// shortBuffer returns a buffer for a short message.
func (m *buffers) shortBuffer() []byte {
	if n := len(m.shorts); n > 0 {
		b := m.shorts[n-1]
		m.shorts = m.shorts[:n-1]
		return b
	}
	return make([]byte, m.short)
}

// large returns a buffer for a payload, whose length is n or more.
func (m *buffers) large(n int) []byte {
	class := bits.Len(uint(max(n, 1) - 1))
	if list := m.larges[class]; len(list) > 0 {
		m.larges[class] = list[:len(list)-1]
		return list[len(list)-1]
	}
	return make([]byte, 1<<class)
}

// release makes a buffer available again.
func (m *buffers) release(b []byte) {
	list, most := &m.shorts, keptShorts
	if len(b) != m.short {
		list, most = &m.larges[bits.Len(uint(len(b)-1))], keptLarges
	}
	if len(*list) < most {
		*list = append(*list, b)
	}
}
