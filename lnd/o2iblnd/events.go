package o2iblnd

import (
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// event is an upcall or a completion to be made.
type event struct {
	kind eventKind
	m    *lnd.Tx  // unsent message; tx is nil
	tx   *tx      // sent message
	rx   *rx      // received or withdrawn message
	err  error    // for these three
	peer lnet.NID // for the other kinds
	down lnd.PeerDown
	p    *peer
}

type eventKind uint8

const (
	evSent eventKind = iota
	evReceived
	evWithdrawn
	evLost
	evDown
	evRestarted
)

type events []event

// putFailed queues the completion of messages that no connection has, with one error.
func (i *Interface) putFailed(ms []*lnd.Tx, err error) {
	for _, m := range ms {
		i.out.Put(event{m: m, err: err})
	}
}

// tell makes one upcall or completion. No lock is held.
func (i *Interface) tell(e *event) {
	switch e.kind {
	case evSent:
		if e.tx != nil {
			e.tx.finish(e.err)
		} else {
			e.m.Done.Sent(e.m, e.err)
		}
	case evReceived:
		e.rx.finish(e.err)
	case evWithdrawn:
		i.upper.Withdrawn(&e.rx.Rx)
		e.rx.withdrawn()
	case evLost:
		i.upper.ConnectionsLost(e.peer)
	case evDown:
		i.upper.PeerDown(e.down)
	case evRestarted:
		i.counters.peersRestarted.Add(1)
		i.upper.PeerRestarted(e.peer)
		e.p.toldRestart()
	}
}
