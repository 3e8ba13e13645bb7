package inproc

import (
	"sync/atomic"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
)

// book is the directory of the TMs of a Core. Messages between two of them stay in the node, whatever their
// NIDs are: they are sent to 0@lo, with one copy and without credits, instead of through a driver. The
// message then only names 0@lo as its source, so the receiver finds the sender's address in the book. A
// sending TM stays in the book until its send has completed, which is after the receiver has handled the
// message.
//
// The zero value is empty. It is safe for concurrent use.
type book [lnet.Portals]atomic.Pointer[page]

// page holds the TMs of a portal, by number.
type page [transport.MaxTMID + 1]atomic.Pointer[tm]

// enter adds a TM. Its portal and number are unique in the node.
func (b *book) enter(t *tm) {
	p := b[t.address.Portal].Load()
	if p == nil {
		b[t.address.Portal].CompareAndSwap(nil, new(page))
		p = b[t.address.Portal].Load()
	}
	p[t.address.TMID].Store(t)
}

// strike removes a TM.
func (b *book) strike(t *tm) { b[t.address.Portal].Load()[t.address.TMID].Store(nil) }

// find returns the TM with a portal and a number, or nil.
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

// way returns the LNet destination for a peer.
func (b *book) way(peer *transport.Address) lnet.ProcessID {
	to := lnet.ProcessID{NID: peer.NID, PID: peer.PID}
	if t := b.find(peer.Portal, peer.TMID); t != nil && t.address == *peer {
		to.NID = lnet.LoopbackNID
	}
	return to
}
