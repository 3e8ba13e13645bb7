package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/simlnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/node"
)

// scenario is everything that a seed decides in advance.
type scenario struct {
	seed uint64

	nodes, rails int
	// oneNet puts all rails on one net, so that a node has several NIs on it. Otherwise each rail is a
	// net.
	oneNet bool
	ipv6   bool
	// modes are the discovery modes of members. configured marks the members whose nodes are configured
	// with the NIDs of all other members.
	modes      []discovery.Mode
	configured []bool
	// absent marks, by member and rail, the NIs that do not exist at the start.
	absent [][]bool
	// routers is the number of routers, which are the first members. If it is 0, all members can reach each
	// other directly. homes lists, by member, the rails on which the member can have NIs.
	routers       int
	homes         [][]int
	checkInterval time.Duration // interval of gateway checks
	buffers       node.Buffers

	fabric       simlnd.Config
	tunables     lnd.Tunables
	options      lnd.Values // of every NI
	minReconnect time.Duration

	transaction time.Duration // transaction timeout
	retries     int
	sensitivity int
	lndTimeout  time.Duration

	agents     int // agents that generate traffic
	operations int
	duration   time.Duration // of traffic and faults
	largest    int           // largest payload in bytes

	networkFaults, memberFaults []Fault

	machines machinePlan
	verbs    verbsPlan
}

// newScenario draws the scenario of a seed.
func newScenario(seed uint64) *scenario {
	s := drawScenario(seed)
	s.drawVerbs()
	return s
}

func drawScenario(seed uint64) *scenario {
	r := rand.New(rand.NewPCG(seed, 0x51ce))
	s := &scenario{seed: seed}
	s.nodes = 3 + min(r.IntN(6), r.IntN(6))
	s.rails = 1 + min(r.IntN(4), r.IntN(4))
	s.oneNet = r.IntN(3) == 0
	s.ipv6 = r.IntN(8) == 0
	if r.IntN(4) == 0 {
		s.drawRouters(r)
	}
	s.drawHomes()
	s.drawDiscovery(r)
	s.drawTransport(r)
	s.drawTimers(r)
	s.drawMachines()

	s.agents = 1 + r.IntN(4)
	s.operations = 60 + r.IntN(140)
	s.duration = time.Duration(10+r.IntN(20)) * time.Second
	s.largest = 64 << 10
	if r.IntN(4) == 0 {
		s.largest = 1 << 20
	}
	if r.IntN(8) == 0 {
		// This scenario has no faults. Loss and small buffers are excluded too, because they could delay an
		// operation beyond its deadline.
		s.fabric.Link.Loss, s.fabric.CutChance = 0, 0
		s.fabric.SendBuffer, s.fabric.ReceiveBuffer = 0, 0
		return s
	}
	for range 1 + r.IntN(7) {
		s.networkFaults = append(s.networkFaults, networkFaults[r.IntN(len(networkFaults))])
	}
	if s.routers == 0 && s.rails > 1 && r.IntN(3) == 0 {
		s.drawAbsent(r)
	}
	for range r.IntN(4) {
		s.memberFaults = append(s.memberFaults, memberFaults[r.IntN(len(memberFaults))])
	}
	return s
}

// drawTransport draws the network and the parameters of drivers.
func (s *scenario) drawTransport(r *rand.Rand) {
	s.fabric = simlnd.Config{Seed: s.seed ^ 0xfab, Link: drawLink(r)}
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
	s.options = lnd.Values{"conns_per_peer": 1}
	if r.IntN(6) == 0 {
		s.options["conns_per_peer"] = 2
	}
	s.minReconnect = 50 * time.Millisecond << r.IntN(4)
}

// drawTimers draws timeouts and intervals.
func (s *scenario) drawTimers(r *rand.Rand) {
	s.transaction = time.Duration(4+r.IntN(7)) * time.Second
	s.retries = r.IntN(4)
	if s.retries > 0 || r.IntN(2) == 0 {
		s.sensitivity = 1 + r.IntN(400)
	}
	s.lndTimeout = time.Duration(max(1, (int(s.transaction/time.Second)-1)/(s.retries+1))) * time.Second
}

// drawDiscovery draws how members get each other's NIDs: by configuration, by discovery or both.
func (s *scenario) drawDiscovery(r *rand.Rand) {
	s.modes, s.configured = make([]discovery.Mode, s.nodes), make([]bool, s.nodes)
	s.absent = make([][]bool, s.nodes)
	how := r.IntN(10)
	if s.routers > 0 && how != 4 { // members find routers by discovery, even if only some use it
		how = 9
	}
	for k := range s.nodes {
		some := r.IntN(3) == 0
		s.absent[k] = make([]bool, s.rails)
		for rail := range s.rails {
			s.absent[k][rail] = !slices.Contains(s.homes[k], rail)
		}
		switch how {
		case 0: // without discovery
			s.modes[k], s.configured[k] = discovery.Static, true
		case 1:
			s.configured[k] = true
		case 2, 3:
			s.configured[k] = some
		case 4, 5:
			if some {
				s.modes[k] = discovery.Off
			}
		case 6:
			s.configured[k] = some
			if r.IntN(3) == 0 {
				s.modes[k] = discovery.Verify
			}
		}
	}
}

// drawAbsent draws NIs that do not exist at the start. Faults may add them later.
func (s *scenario) drawAbsent(r *rand.Rand) {
	for range 1 + r.IntN(s.nodes) {
		k, rail := r.IntN(s.nodes), r.IntN(s.rails)
		s.absent[k][rail] = true
		if !s.allConnected(s.absent) {
			s.absent[k][rail] = false
		}
	}
}

// allConnected reports whether every two members can reach each other if the given NIs are absent.
func (s *scenario) allConnected(absent [][]bool) bool {
	for a := range s.nodes {
		for b := range a {
			if s.sharedRail(absent[a], absent[b]) < 0 {
				return false
			}
		}
	}
	return true
}

// sharedRail returns a rail of b that a can reach, or a negative number if a can reach none. The
// arguments mark the absent NIs of two members.
func (s *scenario) sharedRail(a, b []bool) int {
	if s.routers > 0 { // any rail is reachable
		for rail := range s.rails {
			if !a[rail] && !b[rail] {
				return rail
			}
		}
		return slices.Index(b, false)
	}
	for rail := range s.rails {
		if b[rail] {
			continue
		}
		if !a[rail] || s.oneNet && slices.Contains(a, false) {
			return rail
		}
	}
	return -1
}

// discovers reports whether messages may wait for discovery.
func (s *scenario) discovers() bool { return s.modes[0] != discovery.Static }

// faultless reports whether the scenario has no faults, so that every operation must succeed.
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
	return fmt.Sprintf("%d nodes, %d rails (one net %t, ipv6 %t), %d routers, discovery %v, configured %v, absent %v, link %+v, credits %d/%d, options %v, T %v, retries %d, LND timeout %v, %d operations in %v, machines %+v, RDMA %+v",
		s.nodes, s.rails, s.oneNet, s.ipv6, s.routers, s.modes, s.configured, s.absent, s.fabric.Link, s.tunables.PeerCredits, s.tunables.Credits, s.options,
		s.transaction, s.retries, s.lndTimeout, s.operations, s.duration, s.machines, s.verbs)
}

// driver returns the configuration of a member's driver.
func (s *scenario) driver() socklnd.Config {
	c := socklnd.DefaultConfig()
	c.Tunables = s.tunables
	c.AcceptTimeout = 2 * time.Second
	c.SockTimeout = s.lndTimeout
	c.MinReconnect, c.MaxReconnect = s.minReconnect, 4*s.minReconnect
	c.Keepalive = 5 * time.Second
	c.KeepaliveIdle, c.KeepaliveCount, c.KeepaliveInterval = 3*time.Second, 3, time.Second
	return c
}

// slowest is the rate of slow receivers in bytes per second.
const slowest = 16 << 10

// slack is added to all time limits, because faults slow the network down. It is the longest duration of
// a fault, plus the time to send the content of a stream's buffer at the slowest rate.
func (s *scenario) slack() time.Duration {
	return faultDurationMax + 64<<10/slowest*time.Second + 2*time.Second
}

// lifetime is the time after its commit in which a message may leave a node (lnet-core 2.3).
func (s *scenario) lifetime() time.Duration {
	return s.lndTimeout*time.Duration(s.retries+1) + time.Second
}

// sendWithin is the time limit from Put or Get to the SEND event. Each attempt may wait for credits for
// the message's lifetime, and then for a fault rule and the driver.
func (s *scenario) sendWithin() time.Duration {
	attempt := s.lifetime() + s.driverWithin() + delayMax + 3*time.Second
	return attempt*time.Duration(s.retries+1) + s.slack()
}

// exchanges is the largest number of consecutive pings and pushes that a message waits for: a ping and a
// push, and four more because the peer may change or be merged with another peer at the same time.
const exchanges = 6

// discoverWithin is the time limit for the discovery that a message waits for.
func (s *scenario) discoverWithin() time.Duration {
	if !s.discovers() {
		return 0
	}
	return exchanges * (max(s.sendWithin(), s.responseWithin()) - s.slack() + 2*time.Second)
}

// responseWithin is the time limit from Put or Get to the response, or to the UNLINK event if no
// response comes. It includes the tracker's lifetime, ticks of the monitor, and the time for a response
// that is arriving when the lifetime ends (lnet-core 6.4).
func (s *scenario) responseWithin() time.Duration {
	return s.transaction*5/4 + s.driverWithin() + delayMax + 4*time.Second + s.slack()
}
