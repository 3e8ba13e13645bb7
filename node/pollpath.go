package node

import (
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/selection"
)

// pollPath says where the answer to a request will arrive: the driver and the neighbour. A
// caller that waits for the answer can poll the driver there before it sleeps.
type pollPath struct {
	by  lnd.Poller // nil if the driver does not support polling
	hop lnet.NID
}

// poller is a handler for whose events a caller waits, if the caller can poll the driver
// meanwhile.
type poller interface {
	// setPollPath sets where the answer to the latest request will arrive.
	setPollPath(l pollPath)
}

// setPollPath tells the handler h, if it is a poller, where the answer to a request will
// arrive. d is the path of the request. answered reports whether the request expects an
// answer.
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

// poll makes the driver poll until w is over or the driver ends polling.
func (l pollPath) poll(w *lnd.Wait) {
	if l.by != nil && !w.Over() {
		l.by.Poll(l.hop, w)
	}
}
