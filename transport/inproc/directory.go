package inproc

import (
	"sync/atomic"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
)

// directory contains the TMs of a Core. A message between two of them stays in the node, whatever their NIDs
// are: it is sent to 0@lo, with one copy and without credits, instead of through a driver. The source NID of
// such a message is only 0@lo, so the receiver looks up the sender's address in the directory. A sending TM
// stays in the directory until its send has completed, which is after the receiver has handled the message.
//
// The zero value is empty. It is safe for concurrent use.
type directory [lnet.Portals]atomic.Pointer[portalPage]

// portalPage holds the TMs of a portal, by number.
type portalPage [transport.MaxTMID + 1]atomic.Pointer[tm]

// add adds a TM. No other TM of the node has the same portal and number.
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

// find returns the TM with the given portal and number, or nil.
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

// destination returns the process to which messages for the TM at address peer are sent: 0@lo if that TM
// belongs to this Core.
func (d *directory) destination(peer *transport.Address) lnet.ProcessID {
	to := lnet.ProcessID{NID: peer.NID, PID: peer.PID}
	if t := d.find(peer.Portal, peer.TMID); t != nil && t.address == *peer {
		to.NID = lnet.LoopbackNID
	}
	return to
}
