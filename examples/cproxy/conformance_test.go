package cproxy

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lnetd/lnetd/examples/udplnd"
	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/lndtest"
	"github.com/lnetd/lnetd/lnd/uplnd"
	"github.com/lnetd/lnetd/lnet"
)

// TestConformance runs the suite that all drivers share, with a proxy in C for each node.
func TestConformance(t *testing.T) {
	if testenv.Race {
		return // package uplnd runs the same goroutines
	}
	path := sanitized(t)
	waits := []string{ // for timeouts
		"UnreachablePeer", "PeerRestarts", "DownAfterFailedConnect", "DownBeforeMessagesFail", "SendFromFailedSent",
		"UrgentFirst", "UrgentLargeFirst", "OfALifeThatLasts", "DisconnectEndsPause",
	}
	lndtest.Run(t, lndtest.Harness{
		New: func(t *testing.T, n int) *lndtest.World { return world(t, path, n) },
		Only: func(theme, name string) bool {
			return (theme != "Stall" || name == "RecallFromOthers") && theme != "Withdrawal" && !slices.Contains(waits, name)
		},
		Chain:       500,
		MaxUnplaced: 8,
		Ordered:     true,
	})
}

// settled is an upper that does not see how the link comes up. Its LND timeout is longer than any pause of a
// busy machine.
type settled struct {
	lnd.Upper
	open atomic.Bool
}

func (s *settled) LNDTimeout() time.Duration { return 10 * time.Second }
func (s *settled) LinkChanged(l lnd.LinkState) {
	if s.open.Load() {
		s.Upper.LinkChanged(l)
	}
}

// world returns a network of n nodes, each an NI of an lnetd with a proxy.
func world(t *testing.T, path string, n int) *lndtest.World {
	type site struct {
		driver *uplnd.Driver
		socket string
		end    func()
		proxy  *program
	}
	sites := make([]site, n)
	for k := range sites {
		s := &sites[k]
		s.socket = socketPath(t)
		var server *uplnd.Server
		server, s.end = serve(t, uplnd.Config{AreaSize: 20 << 20, Quarantine: -1}, s.socket)
		s.driver = server.Driver(udplnd.Type, "")
	}
	leave := func(k int) {
		if p := sites[k].proxy; p != nil {
			p.stop()
		}
	}
	return &lndtest.World{
		NID: func(k int) lnet.NID { return nid(k + 1) },
		Open: func(ctx context.Context, k int, u lnd.Upper) (lnd.Interface, error) {
			leave(k)
			s, upper := &sites[k], &settled{Upper: u}
			i, err := s.driver.Open(ctx, lnd.Config{NID: nid(k + 1), Upper: upper})
			if err != nil {
				return nil, err
			}
			s.proxy = start(t, path, s.socket, k+1)
			for end := time.Now().Add(patience); i.Link() != lnd.LinkUp; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					return nil, errors.New("the link does not come up")
				}
			}
			upper.open.Store(true)
			return i, nil
		},
		Close: func() {
			for k := range sites {
				leave(k)
				sites[k].end()
			}
		},
		Renew: leave,
	}
}
