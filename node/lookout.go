package node

import (
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/selection"
)

// lookout is the path of the last request: where a waiting caller can poll for the answer
// before it sleeps.
type lookout struct {
	by  lnd.Poller // nil: polling is not possible
	hop lnet.NID
}

// seeker is a handler on whose events a caller waits that can poll for them.
type seeker interface {
	// seek sets where the answer to the latest request will come from.
	seek(l lookout)
}

// aim calls seek if the handler h is a seeker. d is the path of the request, answered
// reports whether the request expects an answer.
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

// look polls until w is over or the driver stops polling.
func (l lookout) look(w *lnd.Wait) {
	if l.by != nil && !w.Over() {
		l.by.Poll(l.hop, w)
	}
}
