package uplnd

import (
	"maps"
	"math/rand/v2"
	"time"

	"github.com/lnetd/lnetd/lnd/uplnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

const (
	// pidQuarantine is how long the PID of a proxy that is gone is not allocated again.
	pidQuarantine = time.Minute
	// maxPIDs is the maximum number of PIDs of an NI.
	maxPIDs = 4096
	// maxProxyPIDs is the maximum number of PIDs of a proxy, so that one cannot take all of them.
	maxProxyPIDs = 256
	// maxRetired is the maximum number of PIDs that are remembered after their proxies are gone.
	maxRetired = 4 * maxPIDs
	// pidBits is the number of random bits of an allocated PID. LNet reserves the others below the flag.
	pidBits = 28
)

// registerPID gives a PID to a proxy (UP-3). It returns CauseBusy if another proxy has it, or there are too many.
func (i *ni) registerPID(p *proxyEnd, pid lnet.PID) protocol.Cause {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch q := (*i.routes.Load())[pid]; {
	case q == p:
		return protocol.CauseOther
	case q != nil, !i.mayHaveAnother(p):
		return protocol.CauseBusy
	}
	i.setRoute(p, pid)
	return protocol.CauseOther
}

// allocatePID gives a PID to a proxy that no other has, nor had until a moment ago (UP-3, MPI-13). It returns
// CauseBusy if there are too many.
func (i *ni) allocatePID(p *proxyEnd) (lnet.PID, protocol.Cause) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.mayHaveAnother(p) {
		return 0, protocol.CauseBusy
	}
	routes, now := *i.routes.Load(), time.Now()
	for {
		pid := lnet.PIDUserFlag | lnet.PID(rand.Uint32N(1<<pidBits))
		if now.After(i.retired[pid]) && routes[pid] == nil {
			i.setRoute(p, pid)
			return pid, protocol.CauseOther
		}
	}
}

// mayHaveAnother reports whether the NI and the proxy have room for another PID. i.mu is held.
func (i *ni) mayHaveAnother(p *proxyEnd) bool {
	return len(*i.routes.Load()) < maxPIDs && p.pids < maxProxyPIDs
}

// releaseRetired forgets PIDs that may be allocated again. i.mu is held.
func (i *ni) releaseRetired() {
	now := time.Now()
	maps.DeleteFunc(i.retired, func(_ lnet.PID, until time.Time) bool { return now.After(until) })
}

// setRoute makes p the proxy for a PID. i.mu is held.
func (i *ni) setRoute(p *proxyEnd, pid lnet.PID) {
	routes := maps.Clone(*i.routes.Load())
	routes[pid] = p
	p.pids++
	i.routes.Store(&routes)
}
