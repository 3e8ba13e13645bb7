package node_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// Given a node that resends messages over another rail, when its retry count or its
// sensitivity changes, then the number of attempts of the next message changes
// accordingly.
//
// lnet-core 6.5 (2), 6.5 sensitivity
func TestRetriesFollowParameters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRails(t, static(), 2, 2)
		tries := 0
		r.fails(func(tx *lnd.Tx) error {
			if tx.Header.Type == lnet.MsgPut { // not a recovery ping
				tries++
			}
			return as(lnd.StatusLocalDropped)(tx)
		})
		for _, c := range []struct {
			what   string
			change func(p *node.Parameters)
			want   int
		}{
			{"by default", func(*node.Parameters) {}, 3},
			{"retry count 4", func(p *node.Parameters) { p.RetryCount = 4 }, 5},
			{"retry count 0", func(p *node.Parameters) { p.RetryCount = 0 }, 1},
			{"retry count 2", func(p *node.Parameters) { p.RetryCount = 2 }, 3},
			{"no sensitivity", func(p *node.Parameters) { p.HealthSensitivity = 0 }, 1},
		} {
			p := r.a.Admin().Parameters()
			c.change(&p)
			if err := r.a.Admin().SetParameters(p); err != nil {
				t.Fatal(err)
			}
			tries = 0
			if e := r.put(t, node.PutOptions{}); tries != c.want || e.Err == nil {
				t.Errorf("%s: %d tries, event's error %v; want %d and one", c.what, tries, e.Err, c.want)
			}
		}
		r.fails(nil)
	})
}

// Given a GET that is not answered, then it ends after the transaction timeout that was
// set when it was sent.
//
// lnet-core 6.5 (1)
// lnet-wire 9
func TestRequestsLastAsParametersSay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		for _, timeout := range []time.Duration{0, 30 * time.Second, 10 * time.Second} {
			want := timeout
			if timeout == 0 { // unchanged
				want = 150 * time.Second
			} else {
				changed := p.a.Admin().Parameters()
				changed.TransactionTimeout = timeout
				if err := p.a.Admin().SetParameters(changed); err != nil {
					t.Fatal(err)
				}
			}
			begin := time.Now()
			_, err := p.a.GetWait(t.Context(), make([]byte, 8), p.idb, node.GetOptions{Portal: 4})
			if took := time.Since(begin); !errors.Is(err, node.ErrTimedOut) || took < want || took > want+want/2+2*time.Second {
				t.Errorf("timeout %v: %v after %v", want, err, took)
			}
		}
	})
}
