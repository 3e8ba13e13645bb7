package socklnd

import (
	"net/netip"

	"github.com/lnetd/lnetd/lnet"
)

// restart is the news of a peer's new life on its way up.
type restart struct {
	before <-chan struct{} // closed when the news before it has been told; nil: there was none
	told   chan<- struct{}
}

// met follows each verdict on a HELLO. If that has shown a new life of the peer
// it returns the news, which the caller must tell, else nil. p.mu is held.
func (p *peer) met(at netip.Addr) *restart {
	if at == p.id.NID.IP() {
		p.home = true
	}
	if !p.peering.Restarted() || p.id.PID != lnet.PIDLustre {
		return nil
	}
	return p.news()
}

// news makes news of a restart. p.mu is held.
func (p *peer) news() *restart {
	told := make(chan struct{})
	r := &restart{before: p.told, told: told}
	p.told = told
	return r
}

// tell tells the node of a restart, if r is one, after those before. Whoever
// tells counts as one of the interface's goroutines, and keeps the peer in the
// table: no other of the same name can come up meanwhile.
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
}

// awaitTold returns when the node knows of the restarts that there have been:
// other connections of the same life may come up while one tells of it.
func (p *peer) awaitTold() {
	p.mu.Lock()
	told := p.told
	p.mu.Unlock()
	if told != nil {
		<-told
	}
}
