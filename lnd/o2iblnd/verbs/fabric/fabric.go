package fabric

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnd/simlnd/network"
)

// Fabric is a network of hosts. All methods are safe for concurrent use.
type Fabric struct {
	config Config
	faults counters

	// mu guards the following fields, and the state of everything on the fabric.
	mu      sync.Mutex
	net     *network.Network[Link]
	closed  bool
	agenda  agenda
	soon    []func() // what is to happen before the lock is released
	seq     uint64   // last number of a happening or an ID
	timer   *time.Timer
	timerAt time.Duration
	ticks   sync.WaitGroup // timers that are set or running
	numbers uint32         // last number of a queue pair or a key
	space   uint64         // next free address of registered memory
	spare   []*work        // records for later requests
}

// New returns a fabric without hosts.
func New(c Config) *Fabric {
	c.complete()
	f := &Fabric{config: c, space: 0x7f5e_4000_0000}
	f.net = network.New(c.Seed, c.Link, locker{f})
	return f
}

// locker is the fabric's lock as a sync.Locker. Unlock first runs everything that is to happen without delay.
type locker struct{ f *Fabric }

func (l locker) Lock()   { l.f.lock() }
func (l locker) Unlock() { l.f.unlock() }

// Close closes the fabric. Its processes end as by Host.Crash, and nothing happens on the fabric any more.
// Close waits for the callback of the timer.
func (f *Fabric) Close() {
	f.lock()
	f.closed = true
	f.soon = nil
	for _, h := range f.hosts() {
		h.crash()
	}
	f.disarm()
	f.agenda = nil
	f.unlock()
	f.ticks.Wait()
}

// Direction is one direction between two places, or both directions.
type Direction = network.Direction

// Directions.
const (
	Both     = network.Both
	Forward  = network.Forward  // from the first place to the second
	Backward = network.Backward // the opposite direction
)

// SetLink sets the properties of the links between two places.
func (f *Fabric) SetLink(a, b Place, d Direction, l Link) {
	f.lock()
	defer f.unlock()
	f.net.SetLink(ways(a, b, d), l)
}

// Partition discards everything that is sent between two places, until Heal is called as often as
// Partition.
func (f *Fabric) Partition(a, b Place, d Direction) {
	f.lock()
	defer f.unlock()
	f.net.Partition(ways(a, b, d))
}

// Heal ends a Partition with the same arguments.
func (f *Fabric) Heal(a, b Place, d Direction) {
	f.lock()
	defer f.unlock()
	f.net.Heal(ways(a, b, d))
}

// ways returns the ways between two places in the direction d, that is, the pairs of their addresses. The lock
// is held.
func ways(a, b Place, d Direction) []network.Way {
	return network.Ways(a.addresses(), b.addresses(), d)
}

// Break breaks every connection between two places and returns their number. Everything that either end has in
// progress, or posts next, fails with verbs.RetryExceeded.
func (f *Fabric) Break(a, b Place) (n int) {
	f.lock()
	defer f.unlock()
	between := ways(a, b, Both)
	for _, h := range f.hosts() {
		for _, p := range h.processes {
			for _, i := range p.sortedIDs() {
				if i.qp == nil || i.qp.state != qpReady || i.qp.severed || !slices.Contains(between, i.way()) {
					continue
				}
				if other := i.qp.peer; other != nil {
					other.sever()
				}
				i.qp.sever()
				n++
			}
		}
	}
	f.faults.breaks.Add(uint64(n))
	return n
}

// hosts returns all hosts in the order of creation. The lock is held.
func (f *Fabric) hosts() []*Host {
	all := f.net.Hosts()
	hosts := make([]*Host, len(all))
	for k, h := range all {
		hosts[k] = h.Owner.(*Host)
	}
	return hosts
}

// port returns the port that has an address, or nil. The lock is held.
func (f *Fabric) port(a netip.Addr) *Port {
	if p := f.net.Port(a); p != nil {
		return p.Owner.(*Port)
	}
	return nil
}

// carry sends a message of the CM on the way w: it calls do when the message arrives, unless the message is
// lost.
func (f *Fabric) carry(w network.Way, random *rand.Rand, do func()) {
	l := f.net.Link(w)
	if l.CMLoss > 0 && random.Float64() < l.CMLoss {
		f.faults.cmLosses.Add(1)
		return
	}
	f.after(l.delay(random), func() {
		if f.net.Open(w) {
			do()
		}
	})
}

// delay returns a random delay of the link.
func (l *Link) delay(random *rand.Rand) time.Duration {
	d := l.Latency
	if l.Jitter > 0 {
		d += time.Duration(random.Int64N(int64(l.Jitter)))
	}
	return d
}

// Hold delays connection requests between two places until it is released.
type Hold = network.Hold[Link]

// Hold starts to delay connection requests between two places in the direction d, until Release of the result
// is called.
func (f *Fabric) Hold(a, b Place, d Direction) *Hold {
	f.lock()
	defer f.unlock()
	return f.net.Hold(ways(a, b, d))
}

// hold delays the arrival do of a request if a Hold applies to the way w. It returns false if none applies.
func (f *Fabric) hold(w network.Way, do func()) bool {
	return f.net.Delay(w, func() { f.after(0, do) }) != nil
}

// number returns a new number for a queue pair or a key.
func (f *Fabric) number() uint32 {
	f.numbers++
	return f.numbers
}

var _ verbs.Provider = (*Process)(nil)
