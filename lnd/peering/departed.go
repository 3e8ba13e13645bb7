package peering

import (
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// Limits on the number of departed peers to remember. An entry takes 100 to 200 bytes.
const (
	rememberedAtHome  = 8192
	rememberedClaimed = 512
	rememberedFailed  = 8192
)

// failureCounts is the minimum time for which a failure counts after its pause. Pauses of some drivers are always
// short, and a peer may be called only every few seconds. Nevertheless it belongs to FailedPeers.
const failureCounts = time.Minute

// Departed remembers peers that have left an interface's table. Of each peer it keeps the incarnations, which
// show a restart if the peer returns with another incarnation, and the back-off. Newer entries replace older
// ones.
//
// A peer can claim any NID. Peers that were met at the address that their NID contains are kept apart from
// peers that only claimed their NID. So a host can displace only as many entries of real peers as it has
// addresses.
//
// The zero value is empty. Departed is not safe for concurrent use.
type Departed struct {
	home, claimed Generations[lnet.ProcessID, Record]
	failed        Generations[lnet.ProcessID, Backoff]
}

// Record is what an interface remembers of a peer that it was connected to.
type Record struct {
	Incarnations Incarnations
	Home         bool // the peer was met at the address that its NID contains
	Wire         any  // what the driver's protocol remembers of the peer
	// Troubled is set if a call to the peer has failed, or the peer has not answered, and no connection was
	// established since. The driver logs its next connection with LogRecovered, and resets it.
	Troubled bool
}

// Keep remembers a peer that leaves the table. It keeps the record r only if the peer was ever met, and only
// for a node (lnet.PIDLustre), because restarts of other processes are not reported. It keeps the back-off b
// only if that has a pause.
func (d *Departed) Keep(id lnet.ProcessID, r Record, b Backoff) {
	switch {
	case id.PID != lnet.PIDLustre || !r.Incarnations.Any():
	case r.Home:
		d.home.Put(id, r, rememberedAtHome)
	default:
		d.claimed.Put(id, r, rememberedClaimed)
	}
	if !b.Next().IsZero() {
		d.failed.Put(id, b, rememberedFailed)
	}
}

// Recall removes and returns what is remembered of a peer that enters the table again. The back-off is empty
// if its pause ended more than Backoff.Max and more than failureCounts ago.
func (d *Departed) Recall(id lnet.ProcessID, now time.Time) (r Record, b Backoff) {
	r, found := d.home.Remove(id)
	if !found {
		r, _ = d.claimed.Remove(id)
	}
	if b, _ = d.failed.Remove(id); now.After(b.Next().Add(max(b.Max, failureCounts))) {
		b = Backoff{}
	}
	return r, b
}

// EndPauses drops the back-off of a peer, or of all peers for the zero NID.
func (d *Departed) EndPauses(nid lnet.NID) {
	if nid.IsZero() {
		d.failed = Generations[lnet.ProcessID, Backoff]{}
		return
	}
	d.failed.Remove(lnet.ProcessID{NID: nid, PID: lnet.PIDLustre})
}
