package node_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// followingPort is an NI whose driver has no LND timeout configured.
type followingPort struct{ *port }

// Timeout implements lnd.Interface.
func (p followingPort) Timeout() time.Duration { return p.upper.LNDTimeout() }

type followingDriver struct{ driver }

func (d *followingDriver) Open(ctx context.Context, c lnd.Config) (lnd.Interface, error) {
	iface, err := d.driver.Open(ctx, c)
	if err != nil {
		return nil, err
	}
	return followingPort{iface.(*port)}, nil
}

// Given a running node, when the transaction timeout or the retry count changes, then the
// LND timeout of a driver without its own, the timeout that the node shows, and the time
// limit of waiting messages change too.
//
// lnet-core 6.5 (3), 2.3
func TestTimeoutsFollowTheirSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &credited{fabric: newFabric(), n: newNode(t, node.Config{}), order: new([]uint64)}
		nid := parseNID(t, "10.0.0.1@tcp")
		_, err := c.n.AddNI(t.Context(), &followingDriver{driver{fabric: c.fabric, typ: lnet.TypeTCP}},
			lnd.Config{Net: nid.Net(), NID: nid, Tunables: lnd.Tunables{PeerCredits: 1, Credits: 1}})
		if err != nil {
			t.Fatal(err)
		}
		c.addNI(t, newNode(t, node.Config{}), "10.0.0.2@tcp")
		for _, row := range []struct {
			transaction   time.Duration
			retries       int
			want, waiting time.Duration
		}{
			{150 * time.Second, 2, 49 * time.Second, 148 * time.Second},
			{30 * time.Second, 2, 9 * time.Second, 28 * time.Second},
			{30 * time.Second, 0, 29 * time.Second, 30 * time.Second},
			{3 * time.Second, 2, time.Second, 4 * time.Second},
		} {
			p := c.n.Admin().Parameters()
			p.TransactionTimeout, p.RetryCount = row.transaction, row.retries
			if err := c.n.Admin().SetParameters(p); err != nil {
				t.Fatal(err)
			}
			if got := c.n.NIs()[1].LNDTimeout; got != row.want {
				t.Errorf("%v, %d retries: LND timeout %v, want %v", row.transaction, row.retries, got, row.want)
			}
			for _, late := range []bool{false, true} {
				c.hold(true)
				var first, second recorder
				c.send(t, "10.0.0.2@tcp", 0, &first) // has the credit
				c.send(t, "10.0.0.2@tcp", 1, &second)
				wait := row.waiting
				if late {
					wait += time.Millisecond
				}
				time.Sleep(wait)
				c.hold(false)
				if e := second.take(); len(e) != 1 || errors.Is(e[0].Err, node.ErrTimedOut) != late {
					t.Errorf("%v, %d retries: after %v events %+v; timed out: want %v", row.transaction, row.retries, wait, e, late)
				}
			}
		}
	})
}
