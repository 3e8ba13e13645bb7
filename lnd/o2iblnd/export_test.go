package o2iblnd

import (
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// RecallDeparted removes the record of a departed peer from an interface. It reports whether there
// was one, and whether the peer had called from, or been called at, its NID's address.
func RecallDeparted(i lnd.Interface, nid lnet.NID) (met, home bool) {
	o := i.(*Interface)
	o.Locked(func() {
		r, _ := o.Departed.Recall(process(nid), time.Now())
		met, home = r.Incarnations.Any(), r.Home
	})
	return met, home
}
