package simulation

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/simlnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
)

// scenario is what a seed says before anything happens.
type scenario struct {
	seed uint64

	nodes, rails int
	// oneNet puts all rails on one net, so that a node has several NIs there;
	// else each rail is a net of its own.
	oneNet bool
	ipv6   bool
	// byHand says that every node knows which NIDs the others have.
	byHand bool

	fabric       simlnd.Config
	tunables     lnd.Tunables
	connsPerPeer int
	minReconnect time.Duration

	transaction time.Duration // transaction timeout
	retries     int
	sensitivity int
	lndTimeout  time.Duration

	agents     int // that make traffic
	operations int
	duration   time.Duration // of traffic and faults
	largest    int           // payload in bytes

	networkFaults, memberFaults []Fault
}

// newScenario draws a scenario.
func newScenario(seed uint64) *scenario {
	r := rand.New(rand.NewPCG(seed, 0x51ce))
	s := &scenario{seed: seed}
	s.nodes = 3 + min(r.IntN(6), r.IntN(6))
	s.rails = 1 + min(r.IntN(4), r.IntN(4))
	s.oneNet = r.IntN(3) == 0
	s.ipv6 = r.IntN(8) == 0
	s.byHand = r.IntN(2) == 0

	s.fabric = simlnd.Config{Seed: seed ^ 0xfab, Link: drawLink(r)}
	if r.IntN(3) == 0 {
		s.fabric.SendBuffer = 2048 << r.IntN(5)
		s.fabric.ReceiveBuffer = 2048 << r.IntN(5)
	}
	if r.IntN(8) == 0 {
		s.fabric.CutChance, s.fabric.CutWithin = 0.1, 1<<(6+r.Int64N(8))
	}
	s.tunables = lnd.Tunables{PeerTimeout: 180 * time.Second, PeerCredits: 8, Credits: 256}
	if r.IntN(2) == 0 {
		s.tunables.PeerCredits = 1 + r.IntN(4)
		s.tunables.Credits = s.tunables.PeerCredits + r.IntN(6)
	}
	s.connsPerPeer = 1
	if r.IntN(6) == 0 {
		s.connsPerPeer = 2
	}
	s.minReconnect = 50 * time.Millisecond << r.IntN(4)

	s.transaction = time.Duration(4+r.IntN(7)) * time.Second
	s.retries = r.IntN(4)
	if s.retries > 0 || r.IntN(2) == 0 {
		s.sensitivity = 1 + r.IntN(400)
	}
	s.lndTimeout = time.Duration(max(1, (int(s.transaction/time.Second)-1)/(s.retries+1))) * time.Second

	s.agents = 1 + r.IntN(4)
	s.operations = 60 + r.IntN(140)
	s.duration = time.Duration(10+r.IntN(20)) * time.Second
	s.largest = 64 << 10
	if r.IntN(4) == 0 {
		s.largest = 1 << 20
	}
	if r.IntN(8) == 0 {
		// Nothing is so slow either that it could be overdue.
		s.fabric.Link.Loss, s.fabric.CutChance = 0, 0
		s.fabric.SendBuffer, s.fabric.ReceiveBuffer = 0, 0
		return s
	}
	for range 1 + r.IntN(7) {
		s.networkFaults = append(s.networkFaults, networkFaults[r.IntN(len(networkFaults))])
	}
	for range r.IntN(4) {
		s.memberFaults = append(s.memberFaults, memberFaults[r.IntN(len(memberFaults))])
	}
	return s
}

// faultless says that nothing is ever broken, so that every operation must
// come to its end as meant.
func (s *scenario) faultless() bool {
	return len(s.networkFaults)+len(s.memberFaults) == 0
}

func drawLink(r *rand.Rand) simlnd.Link {
	switch r.IntN(4) {
	case 0:
		return simlnd.Link{}
	case 1:
		return simlnd.Link{Latency: 50 * time.Microsecond, Jitter: 20 * time.Microsecond, Bandwidth: 1 << 30}
	case 2:
		return simlnd.Link{Latency: time.Millisecond, Jitter: 20 * time.Millisecond}
	}
	return simlnd.Link{Latency: 5 * time.Millisecond, Jitter: 5 * time.Millisecond, Loss: 0.01}
}

func (s *scenario) String() string {
	return fmt.Sprintf("%d nodes, %d rails (one net %t, ipv6 %t, peers by hand %t), link %+v, credits %d/%d, conns_per_peer %d, T %v, retries %d, LND timeout %v, %d operations in %v",
		s.nodes, s.rails, s.oneNet, s.ipv6, s.byHand, s.fabric.Link, s.tunables.PeerCredits, s.tunables.Credits, s.connsPerPeer,
		s.transaction, s.retries, s.lndTimeout, s.operations, s.duration)
}

// driver is the configuration of a member's driver.
func (s *scenario) driver() socklnd.Config {
	c := socklnd.DefaultConfig()
	c.Tunables = s.tunables
	c.AcceptTimeout = 2 * time.Second
	c.SockTimeout = s.lndTimeout
	c.MinReconnect, c.MaxReconnect = s.minReconnect, 4*s.minReconnect
	c.Keepalive = 5 * time.Second
	c.KeepaliveIdle, c.KeepaliveCount, c.KeepaliveInterval = 3*time.Second, 3, time.Second
	c.ConnsPerPeer = s.connsPerPeer
	return c
}

// slowest is what slow receivers take, in bytes per second.
const slowest = 16 << 10

// slack is how much longer anything may take because faults slow the network
// down without stopping it: the longest episode, and what then still waits in
// a stream's buffer.
func (s *scenario) slack() time.Duration {
	return episodeMax + 64<<10/slowest*time.Second + 2*time.Second
}

// lifetime is how long after its commit a message may leave a node
// (lnet-core 2.3).
func (s *scenario) lifetime() time.Duration {
	return s.lndTimeout*time.Duration(s.retries+1) + time.Second
}

// sendWithin bounds the time from a call to its SEND event: each attempt waits
// for credits as long as the message lives, and then for a rule and the driver.
func (s *scenario) sendWithin() time.Duration {
	attempt := s.lifetime() + s.lndTimeout*2 + delayMax + 3*time.Second
	return attempt*time.Duration(s.retries+1) + s.slack()
}

// responseWithin bounds the time from a call to the end of the wait for its
// response: the tracker's life, the monitor's ticks, and a response that is
// arriving by then (lnet-core 6.4).
func (s *scenario) responseWithin() time.Duration {
	return s.transaction*3/2 + 2*s.lndTimeout + delayMax + 4*time.Second + s.slack()
}
