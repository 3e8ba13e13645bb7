package socklnd_test

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/internal/testing/cost"
	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/simlnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
)

// Parameters of the storms in TestStormsCostInProportion.
const (
	// growthMax is how many times as much a storm of twice as many peers may cost.
	growthMax = 2.3
	// stormHalfOpen is the size of the node's table of callers whose handshake is not complete. It is much smaller than
	// the number of peers, so that callers must wait for room in the table.
	stormHalfOpen = 64
	// stormConns is the number of connections of a peer: CONTROL, BULK_IN and BULK_OUT.
	stormConns = 3
	// resendPause is how long a peer waits before it sends a message again that has failed.
	resendPause = 200 * time.Millisecond
	// outage is how long the node is down in the last storm.
	outage = 10 * time.Second
	// outageFailures is the number of attempts of a peer that may fail because of the outage: the first one, and those
	// after pauses of 1 s, 2 s and 4 s. Each pause is up to a quarter longer at random.
	outageFailures = 4
	// stormLimit is the simulated time after which a storm has failed.
	stormLimit = 5 * time.Minute
)

// stormLink delays each request and each write by another time, so that the order in which callers arrive depends only
// on the seed.
var stormLink = simlnd.Link{Latency: 50 * time.Microsecond, Jitter: time.Millisecond}

// TestStormsCostInProportion makes n peers connect to a node at the same moment, in simulated time: for the first time,
// after the node has restarted, and after it was down for a while. It fails if twice as many peers cost more than
// growthMax times as much. It also fails if an attempt to connect fails while the node is up.
//
// Work that neither allocates memory nor wakes goroutines costs no simulated time, so the test does not notice it.
func TestStormsCostInProportion(t *testing.T) {
	n := testenv.Fewer(400)
	few, many := storms(t, n), storms(t, 2*n)
	for k, m := range many {
		f := few[k]
		t.Logf("%d peers %+v, %d peers %+v", n, f, 2*n, m)
		inProportion(t, m.event, "attempts to connect", float64(m.attempts), float64(f.attempts))
		inProportion(t, m.event, "callers at the node", float64(m.callers), float64(f.callers))
		inProportion(t, m.event, "simulated time", m.took.Seconds(), f.took.Seconds())
		if !testenv.Race {
			inProportion(t, m.event, "wake-ups", float64(m.wakeups), float64(f.wakeups))
			inProportion(t, m.event, "allocated objects", float64(m.objects), float64(f.objects))
			inProportion(t, m.event, "allocated bytes", float64(m.bytes), float64(f.bytes))
		}
	}
}

// inProportion checks that a cost with twice as many peers is at most growthMax times that before.
func inProportion(t *testing.T, event, what string, got, before float64) {
	t.Helper()
	if got > growthMax*before {
		t.Errorf("%s: %s: %.4g with twice as many peers, %.4g before", event, what, got, before)
	}
}

// stormCosts are the costs of a storm for all peers and the node together.
type stormCosts struct {
	event    string
	attempts uint64        // of peers to connect, also those that failed
	callers  uint64        // that the node accepted or refused
	objects  uint64        // allocated by the process
	bytes    uint64        // of these objects
	wakeups  uint64        // of goroutines of the process, estimated
	took     time.Duration // simulated time until all peers had sent a message and had all their connections
}

// storms makes n peers connect to a node three times, and returns the costs of each time.
func storms(t *testing.T, n int) (all []stormCosts) {
	t.Helper()
	t.Run(fmt.Sprint(n, " peers"), func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newStorm(t, n)
			defer s.close()
			measure := func(event string, failures int, begin func()) {
				costs := s.measure(event, begin)
				all = append(all, costs)
				if most := uint64(n * (stormConns + failures)); costs.attempts > most {
					t.Errorf("%s: %d attempts to connect, want %d at most", event, costs.attempts, most)
				}
				if want := uint64(n * stormConns); costs.callers != want {
					t.Errorf("%s: %d callers at the node, want %d", event, costs.callers, want)
				}
			}
			s.openNode()
			measure("first storm", 0, s.sendAll)
			s.closeNode()
			s.openNode()
			measure("storm after a restart", 0, s.sendAll)
			s.closeNode()
			measure("storm after an outage", outageFailures, func() {
				s.sendAll()
				<-time.After(outage)
				s.openNode()
			})
		})
	})
	if t.Failed() {
		t.FailNow()
	}
	return all
}

// storm is a node and its peers, each on another host.
type storm struct {
	t      *testing.T
	fabric *simlnd.Fabric
	node   station
	peers  []*stormPeer
	served atomic.Int64 // peers whose message was sent since sendAll
}

// station is an interface with its driver.
type station struct {
	silentUpper
	driver *socklnd.Driver
}

// stormPeer is a peer that repeats its message until it was sent.
type stormPeer struct {
	station
	s  *storm
	tx lnd.Tx
}

func newStorm(t *testing.T, n int) *storm {
	s := &storm{t: t, fabric: simlnd.New(simlnd.Config{Seed: 1, Link: stormLink})}
	to := lnet.ProcessID{NID: lnet.NIDFromIP(tcp, stormAddress(0)), PID: lnet.PIDLustre}
	s.fabric.Host("node", stormAddress(0).String())
	for k := range n {
		p, at := &stormPeer{s: s}, stormAddress(k+1)
		p.open(t, s.fabric.Host(fmt.Sprint("peer ", k), at.String()), at)
		p.tx = lnd.Tx{
			Header: lnet.Header{Type: lnet.MsgPut, Src: p.i.NID(), Dest: to.NID, SrcPID: to.PID, DestPID: to.PID},
			To:     to, Done: p,
		}
		s.peers = append(s.peers, p)
	}
	return s
}

// stormAddress returns the address of the node for 0, and those of peers for larger numbers.
func stormAddress(k int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(k >> 8), byte(k)}) }

// open opens the station's driver and interface.
func (u *station) open(t *testing.T, h *simlnd.Host, at netip.Addr) {
	t.Helper()
	c := socklnd.DefaultConfig()
	c.ConnsPerPeer, c.MaxHalfOpen = 1, stormHalfOpen
	var err error
	if u.driver, err = simlnd.NewDriver(h, c); err != nil {
		t.Fatal(err)
	}
	if u.i, err = u.driver.Open(context.Background(), lnd.Config{Net: tcp, NID: lnet.NIDFromIP(tcp, at), Upper: u}); err != nil {
		t.Fatal(err)
	}
}

// close closes the station's interface and driver.
func (u *station) close(t *testing.T) {
	t.Helper()
	if err := u.i.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if err := u.driver.Close(); err != nil {
		t.Error(err)
	}
}

// count returns the sum of the given counters.
func (u *station) count(names ...string) (sum uint64) {
	for _, c := range u.i.Counters() {
		for _, name := range names {
			if c.Name == name {
				sum += c.Value
			}
		}
	}
	return sum
}

func (s *storm) openNode() { s.node.open(s.t, s.fabric.Host("node"), stormAddress(0)) }

// closeNode closes the node, and waits until all peers have lost their connections.
func (s *storm) closeNode() {
	s.t.Helper()
	s.node.close(s.t)
	s.await("loss of all connections", func() bool { return s.countPeers("connections") == 0 })
}

// close closes everything.
func (s *storm) close() {
	for _, p := range s.peers {
		p.close(s.t)
	}
	s.node.close(s.t)
	s.fabric.Close()
}

// countPeers returns the sum of the given counters of all peers.
func (s *storm) countPeers(names ...string) (sum uint64) {
	for _, p := range s.peers {
		sum += p.count(names...)
	}
	return sum
}

// sendAll makes all peers send their message.
func (s *storm) sendAll() {
	s.served.Store(0)
	for _, p := range s.peers {
		p.send()
	}
}

func (p *stormPeer) send() { p.i.Send(&p.tx) }

// Sent implements lnd.Sender.
func (p *stormPeer) Sent(_ *lnd.Tx, err error) {
	if err != nil {
		time.AfterFunc(resendPause, p.send)
		return
	}
	p.s.served.Add(1)
}

// measure calls begin, which makes all peers send a message, and waits until they have sent it and have all their
// connections. The garbage collector does not run meanwhile, because its own work would be counted.
func (s *storm) measure(event string, begin func()) stormCosts {
	s.t.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	c := stormCosts{event: event}
	attempts, began := s.attempts(), time.Now()
	c.wakeups = cost.Wakeups(func() {
		objects, bytes := allocated()
		begin()
		s.awaitAll()
		c.objects, c.bytes = allocated()
		c.objects, c.bytes = c.objects-objects, c.bytes-bytes
	})
	c.took, c.attempts = time.Since(began), s.attempts()-attempts
	c.callers = s.node.count("accepts_total", "refused_total")
	return c
}

// attempts returns how often peers have tried to connect so far.
func (s *storm) attempts() uint64 { return s.countPeers("connects_total", "connect_failures_total") }

// awaitAll waits until all peers have sent their message and have all their connections.
func (s *storm) awaitAll() {
	s.t.Helper()
	s.await("a message of each peer", func() bool { return s.served.Load() == int64(len(s.peers)) })
	all := uint64(len(s.peers) * stormConns)
	s.await("all connections", func() bool {
		return s.node.count("connections") == all && s.countPeers("connections") == all
	})
}

// await waits until done returns true.
func (s *storm) await(what string, done func() bool) {
	s.t.Helper()
	for began := time.Now(); !done(); <-time.After(time.Millisecond) {
		if time.Since(began) > stormLimit {
			s.t.Fatalf("waited %v for %s: %d of %d peers served, %d connections at the node", stormLimit, what,
				s.served.Load(), len(s.peers), s.node.count("connections"))
		}
	}
}

// allocated returns the number of objects that this process has allocated on the heap, and their bytes.
func allocated() (objects, bytes uint64) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs, m.TotalAlloc
}
