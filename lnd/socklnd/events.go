package socklnd

import (
	"errors"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// event is an upcall, or the completion of a message that has failed.
type event struct {
	m    *lnd.Tx // completed with err; nil for an upcall
	err  error
	lost lnet.NID // ConnectionsLost, if not zero
	down lnd.PeerDown
}

// perform makes one upcall or completion. No lock is held.
func (i *Interface) perform(e *event) {
	switch {
	case e.m != nil:
		e.m.Done.Sent(e.m, e.err)
	case !e.lost.IsZero():
		i.upper.ConnectionsLost(e.lost)
	default:
		i.upper.PeerDown(e.down)
	}
}

// putFailed queues the completion of messages with one error.
func (i *Interface) putFailed(ms []*lnd.Tx, err error) {
	for _, m := range ms {
		i.out.Put(event{m: m, err: err})
	}
}

// putDown queues the report that the peer is lost, if it has not been made since the peer's last
// connection or attempt has ended. Processes that only their own connections can reach are not reported
// (socklnd 15.4). An orderly end counts too: a peer that closes its connections is shutting down. p.mu
// is held.
func (p *peer) putDown() {
	cause := p.loss
	p.loss = nil
	if cause == nil || p.unprivileged() || errors.Is(cause, errClosing) {
		return
	}
	p.i.counters.peersDown.Add(1)
	p.i.out.Put(event{down: lnd.PeerDown{
		Peer:      p.id.NID,
		LastAlive: p.lastAlive,
		Err:       messageError("connect", p.id.NID, connectStatus(cause), cause),
	}})
}

// putLost queues the report that connections to the peer have died.
func (p *peer) putLost(cause error) {
	if p.id.PID == lnet.PIDLustre && !errors.Is(cause, errClosing) {
		p.i.out.Put(event{lost: p.id.NID})
	}
}
