package udplnd

import (
	"context"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/lndtest"
	"github.com/lnetd/lnetd/lnet"
)

// TestConformance runs the suite that all drivers share, over a packet network in memory.
func TestConformance(t *testing.T) {
	if testenv.Race {
		return // the others run the same goroutines
	}
	lndtest.Run(t, inMemory(func() bool { return false }, nil))
}

// TestConformanceWithLoss runs a part of the suite where a tenth of the datagrams is lost and another
// tenth comes twice.
func TestConformanceWithLoss(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	lndtest.Run(t, inMemory(func() bool { return r.IntN(10) == 0 }, []string{"Headers", "Payload", "Placement", "Peers", "Restart"}))
}

// inMemory describes the driver over a network in memory. themes are the parts of the suite, nil for all.
func inMemory(unlucky func() bool, themes []string) lndtest.Harness {
	return lndtest.Harness{
		New: func(_ *testing.T, n int) *lndtest.World {
			network := &packets{sockets: make(map[netip.AddrPort]*packetSocket), unlucky: unlucky}
			return world(n, network.listen)
		},
		Bubble:      synctest.Test,
		Settle:      synctest.Wait,
		Only:        func(theme, _ string) bool { return themes == nil || slices.Contains(themes, theme) },
		Patience:    10 * time.Minute,
		Chain:       500,
		MaxUnplaced: 1,
		Ordered:     true,
	}
}

// TestConformanceOverUDP runs the suite over sockets of the loopback device, without the cases that wait
// for timeouts.
func TestConformanceOverUDP(t *testing.T) {
	waits := []string{
		"UnreachablePeer", "IsolatedPeer", "IsolatedInPayload", "DownAfterFailedConnect", "SendFromFailedSent",
		"UrgentFirst", "UrgentLargeFirst", "OfALifeThatLasts", "SendWithinClose", "DisconnectEndsPause",
	}
	lndtest.Run(t, lndtest.Harness{
		New: func(_ *testing.T, n int) *lndtest.World { return world(n, UDP) },
		Only: func(theme, name string) bool {
			return theme != "Stall" && !slices.Contains(waits, name)
		},
		Chain:       500,
		MaxUnplaced: 1,
		Ordered:     true,
		Descriptors: true,
	})
}

var udp = lnet.MakeNet(Type, 0)

const port = 9990

// nid returns the NID of node k. Each test process uses different ones.
func nid(k int) lnet.NID {
	pid := os.Getpid()
	return lnet.NIDFromIP(udp, netip.AddrFrom4([4]byte{127, byte(16 + pid>>8%200), byte(pid), byte(k + 1)}))
}

// patient is an upper whose LND timeout is longer than any pause of a busy machine, but not longer than
// needed.
type patient struct{ lnd.Upper }

func (patient) LNDTimeout() time.Duration { return 10 * time.Second }

// world is a network of n nodes.
func world(n int, listen func(*net.UDPAddr) (net.PacketConn, error)) *lndtest.World {
	f := newFaults(listen)
	drivers := make([]*Driver, n)
	renew := func(k int) { drivers[k] = &Driver{Port: port, Listen: f.open} }
	for k := range n {
		renew(k)
	}
	way := func(a, b int) pair {
		return pair{drivers[a].address(nid(a)).AddrPort(), drivers[b].address(nid(b)).AddrPort()}
	}
	return &lndtest.World{
		NID: nid,
		Open: func(ctx context.Context, k int, u lnd.Upper) (lnd.Interface, error) {
			return drivers[k].Open(ctx, lnd.Config{NID: nid(k), Upper: patient{u}})
		},
		Close:    func() {},
		Renew:    renew,
		Kill:     func(a, b int) { f.kill(way(a, b)) },
		Isolate:  func(a, b int) func() { return f.isolate(way(a, b)) },
		Hold:     func(a, b int) func() { return f.hold(way(a, b)) },
		CutAfter: func(a, b, n int) { f.cutAfter(way(a, b), n) },
	}
}
