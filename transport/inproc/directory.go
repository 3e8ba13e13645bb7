package inproc

import (
	"sync/atomic"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
)

// directory has the TMs of a Core. Messages between two of them stay in the node, whatever their
// NIDs are: they are sent to 0@lo, with one copy and without credits, instead of through a driver. The
// message then only names 0@lo as its source, so the receiver finds the sender's address in the directory.
// A sending TM stays in the directory until its send has completed, which is after the receiver has handled the
// message.
//
// The zero value is empty. It is safe for concurrent use.
type directory [lnet.Portals]atomic.Pointer[portalPage]

// portalPage holds the TMs of a portal, by number.
type portalPage [transport.MaxTMID + 1]atomic.Pointer[tm]

// add adds a TM. Its portal and number are unique in the node.
func (d *directory) add(t *tm) {
	p := d[t.address.Portal].Load()
	if p == nil {
		d[t.address.Portal].CompareAndSwap(nil, new(portalPage))
		p = d[t.address.Portal].Load()
	}
	p[t.address.TMID].Store(t)
}

// remove removes a TM.
func (d *directory) remove(t *tm) { d[t.address.Portal].Load()[t.address.TMID].Store(nil) }

// find returns the TM with a portal and a number, or nil.
func (d *directory) find(portal uint32, id uint16) *tm {
	if portal >= lnet.Portals || id > transport.MaxTMID {
		return nil
	}
	p := d[portal].Load()
	if p == nil {
		return nil
	}
	return p[id].Load()
}

// destination returns the LNet destination for a peer.
func (d *directory) destination(peer *transport.Address) lnet.ProcessID {
	to := lnet.ProcessID{NID: peer.NID, PID: peer.PID}
	if t := d.find(peer.Portal, peer.TMID); t != nil && t.address == *peer {
		to.NID = lnet.LoopbackNID
	}
	return to
}
