package o2iblnd

import (
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// RecallDeparted takes a departed peer out of an interface's memory. It reports whether the peer was met, and
// whether that was at its own address.
func RecallDeparted(i lnd.Interface, nid lnet.NID) (met, home bool) {
	o := i.(*Interface)
	o.mu.Lock()
	defer o.mu.Unlock()
	r, _ := o.departed.Recall(lnet.ProcessID{NID: nid, PID: lnet.PIDLustre}, time.Now())
	return r.Incarnations.Any(), r.Home
}
