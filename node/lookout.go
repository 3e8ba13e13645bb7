package node

import (
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/selection"
)

// lookout is where to look for what somebody waits for, rather than sleep at once: the
// way that the last request went.
type lookout struct {
	by  lnd.Poller // nil: nowhere
	hop lnet.NID
}

// seeker is a handler on whose events somebody waits who can look for them himself.
type seeker interface {
	// seek tells where the answer to the latest request will come from.
	seek(l lookout)
}

// aim tells the handler of a request that takes the path d where its answer can be looked
// for, if it asks for one.
func aim(h portals.Handler, d *selection.Decision, answered bool) {
	s, ok := h.(seeker)
	if !ok {
		return
	}
	var l lookout
	if answered && d.Next != nil {
		if by, ok := d.NI.Owner.(*ni).iface.(lnd.Poller); ok {
			l = lookout{by, d.Next.NID}
		}
	}
	s.seek(l)
}

// look looks until w is over, or for as long as the driver cares to.
func (l lookout) look(w *lnd.Wait) {
	if l.by != nil && !w.Over() {
		l.by.Poll(l.hop, w)
	}
}
