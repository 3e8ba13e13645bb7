package node

import (
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/selection"
)

// pollPath is the path of the last request: where a waiting caller can poll for the answer
// before it sleeps.
type pollPath struct {
	by  lnd.Poller // nil: polling is not possible
	hop lnet.NID
}

// poller is a handler on whose events a caller waits that can poll for them.
type poller interface {
	// setPollPath sets where the answer to the latest request will come from.
	setPollPath(l pollPath)
}

// setPollPath calls setPollPath of the handler h if it is a poller. d is the path of the request, answered
// reports whether the request expects an answer.
func setPollPath(h portals.Handler, d *selection.Decision, answered bool) {
	s, ok := h.(poller)
	if !ok {
		return
	}
	var l pollPath
	if answered && d.Next != nil {
		if by, ok := d.NI.Owner.(*ni).iface.(lnd.Poller); ok {
			l = pollPath{by, d.Next.NID}
		}
	}
	s.setPollPath(l)
}

// poll polls until w is over or the driver stops polling.
func (l pollPath) poll(w *lnd.Wait) {
	if l.by != nil && !w.Over() {
		l.by.Poll(l.hop, w)
	}
}
