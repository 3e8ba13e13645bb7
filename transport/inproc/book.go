package inproc

import (
	"sync/atomic"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
)

// book is where the TMs of a Core are. What one of them sends to another does not leave the
// node, whatever their NIDs are: it goes by 0@lo, in one copy and without credits, and not
// by a driver to itself. Who receives it hears who has sent it from the book, for the
// message says no more than 0@lo. A TM that sends stays in the book until it has been told
// that its message was sent, by when the other side has been told.
//
// The zero value is empty. It is safe for concurrent use.
type book [lnet.Portals]atomic.Pointer[page]

// page is those of a portal, by number.
type page [transport.MaxTMID + 1]atomic.Pointer[tm]

// enter notes a TM, whose portal and number nobody else in the node has.
func (b *book) enter(t *tm) {
	p := b[t.address.Portal].Load()
	if p == nil {
		b[t.address.Portal].CompareAndSwap(nil, new(page))
		p = b[t.address.Portal].Load()
	}
	p[t.address.TMID].Store(t)
}

// strike takes a TM out.
func (b *book) strike(t *tm) { b[t.address.Portal].Load()[t.address.TMID].Store(nil) }

// find is the TM with a portal and a number; nil if there is none.
func (b *book) find(portal uint32, id uint16) *tm {
	if portal >= lnet.Portals || id > transport.MaxTMID {
		return nil
	}
	p := b[portal].Load()
	if p == nil {
		return nil
	}
	return p[id].Load()
}

// way is where LNet is to take what is for a peer.
func (b *book) way(peer *transport.Address) lnet.ProcessID {
	to := lnet.ProcessID{NID: peer.NID, PID: peer.PID}
	if t := b.find(peer.Portal, peer.TMID); t != nil && t.address == *peer {
		to.NID = lnet.LoopbackNID
	}
	return to
}
