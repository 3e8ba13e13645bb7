package socklnd

import (
	"net/netip"

	"github.com/lnetd/lnetd/lnet"
)

// restart is a restart of a peer that is being reported to the node.
type restart struct {
	before <-chan struct{} // closed when the previous restart has been reported; nil if none
	told   chan<- struct{}
}

// met records an incarnation that the peer has announced from an address. If it shows that the peer has
// restarted, met returns the restart, which the caller must pass to tell. Otherwise it returns nil. p.mu
// is held.
func (p *peer) met(at netip.Addr, incarnation uint64) *restart {
	if at == p.id.NID.IP() {
		p.record.Home = true
	}
	if !p.record.Incarnations.Meet(incarnation) || p.id.PID != lnet.PIDLustre {
		return nil
	}
	return p.news()
}

// news creates the report of a restart. p.mu is held.
func (p *peer) news() *restart {
	p.restarts.Add()
	told := make(chan struct{})
	r := &restart{before: p.told, told: told}
	p.told = told
	return r
}

// tell reports a restart to the node, after earlier ones. It does nothing if r is nil. The caller
// counts as one of the interface's goroutines.
func (p *peer) tell(r *restart) {
	if r == nil {
		return
	}
	if r.before != nil {
		<-r.before
	}
	p.i.counters.peersRestarted.Add(1)
	p.i.log.Debug("peer restarted", "peer", p.id.String())
	p.i.upper.PeerRestarted(p.id.NID)
	close(r.told)
	p.mu.Lock()
	p.restarts.Done()
	p.mu.Unlock()
}

// awaitTold returns when all restarts so far have been reported to the node. Other connections of the
// new incarnation may come up while a report is running.
func (p *peer) awaitTold() {
	p.mu.Lock()
	told := p.told
	p.mu.Unlock()
	if told != nil {
		<-told
	}
}
