package fabric

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
)

// Fabric is a network of hosts. All methods are safe for concurrent use.
type Fabric struct {
	config Config
	start  time.Time
	faults counters

	// mu guards the following fields, and the state of everything on the fabric.
	mu       sync.Mutex
	closed   bool
	agenda   agenda
	soon     []func()
	seq      uint64
	timer    *time.Timer
	timerAt  time.Duration
	ticks    sync.WaitGroup // timers that are set or running
	hosts    map[string]*Host
	owners   map[netip.Addr]*Port
	links    map[way]Link
	cuts     map[way]int
	ordinals map[way]uint64 // number of connection attempts
	holds    []*Hold
	numbers  uint32 // last number of a queue pair or key
	space    uint64 // the next free address
	spare    []*work
}

// A way is a pair of addresses, with a direction.
type way struct{ from, to netip.Addr }

func (w way) back() way { return way{w.to, w.from} }

// New returns a fabric without hosts.
func New(c Config) *Fabric {
	c.complete()
	return &Fabric{
		config:   c,
		start:    time.Now(),
		hosts:    make(map[string]*Host),
		owners:   make(map[netip.Addr]*Port),
		links:    make(map[way]Link),
		cuts:     make(map[way]int),
		ordinals: make(map[way]uint64),
		space:    0x7f5e_4000_0000,
	}
}

// Close closes the fabric. Its processes die, nothing more happens, and its timer has ended.
func (f *Fabric) Close() {
	f.lock()
	f.closed = true
	f.soon = nil
	for _, h := range f.hosts {
		h.crash()
	}
	f.disarm()
	f.agenda = nil
	f.unlock()
	f.ticks.Wait()
}

// SetLink sets the properties of the links between two places.
func (f *Fabric) SetLink(a, b Place, l Link) {
	f.lock()
	defer f.unlock()
	for _, w := range f.ways(a, b) {
		f.links[w], f.links[w.back()] = l, l
	}
}

// Cut discards everything that is sent from one place to another, until Mend is called as often as Cut.
func (f *Fabric) Cut(from, to Place) { f.cut(from, to, 1) }

// Mend ends a Cut with the same arguments.
func (f *Fabric) Mend(from, to Place) { f.cut(from, to, -1) }

// Partition is a Cut in both directions.
func (f *Fabric) Partition(a, b Place) {
	f.Cut(a, b)
	f.Cut(b, a)
}

// Heal ends a Partition with the same arguments.
func (f *Fabric) Heal(a, b Place) {
	f.Mend(a, b)
	f.Mend(b, a)
}

func (f *Fabric) cut(from, to Place, n int) {
	f.lock()
	defer f.unlock()
	for _, w := range f.ways(from, to) {
		f.cuts[w] = max(f.cuts[w]+n, 0)
	}
	if n > 0 {
		f.faults.cuts.Add(1)
	}
}

func (f *Fabric) ways(from, to Place) (ways []way) {
	for _, a := range from.addresses() {
		for _, b := range to.addresses() {
			ways = append(ways, way{a, b})
		}
	}
	return ways
}

// Break breaks every connection between two places and returns their number. Everything that either end
// has in progress, or sends next, fails with verbs.RetryExceeded.
func (f *Fabric) Break(a, b Place) (n int) {
	f.lock()
	defer f.unlock()
	ways := f.ways(a, b)
	for _, h := range f.sortedHosts() {
		for _, p := range h.processes {
			for _, i := range p.sortedIDs() {
				w := i.way()
				if i.qp == nil || i.qp.state != qpReady || i.qp.severed || !slices.Contains(ways, w) && !slices.Contains(ways, w.back()) {
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

func (f *Fabric) sortedHosts() []*Host {
	hosts := make([]*Host, 0, len(f.hosts))
	for _, h := range f.hosts {
		hosts = append(hosts, h)
	}
	slices.SortFunc(hosts, func(a, b *Host) int { return a.number - b.number })
	return hosts
}

// link returns the properties of a way.
func (f *Fabric) link(w way) Link {
	if l, ok := f.links[w]; ok {
		return l
	}
	return f.config.Link
}

// open reports whether data sent on a way arrives.
func (f *Fabric) open(w way) bool {
	from, to := f.owners[w.from], f.owners[w.to]
	return from.works() && to.works() && f.cuts[w] == 0
}

// carry schedules do, a message of the connection manager, at the end of a way, unless the message is
// lost.
func (f *Fabric) carry(w way, random *rand.Rand, do func()) {
	l := f.link(w)
	if l.CMLoss > 0 && random.Float64() < l.CMLoss {
		f.faults.cmLosses.Add(1)
		return
	}
	f.after(l.delay(random), func() {
		if f.open(w) {
			do()
		}
	})
}

func (l *Link) delay(random *rand.Rand) time.Duration {
	d := l.Latency
	if l.Jitter > 0 {
		d += time.Duration(random.Int64N(int64(l.Jitter)))
	}
	return d
}

// random returns the random numbers of one end of a connection attempt.
func (f *Fabric) random(w way, ordinal, end uint64) *rand.Rand {
	h := f.config.Seed
	for _, a := range []netip.Addr{w.from, w.to} {
		for _, b := range a.As16() {
			h = (h ^ uint64(b)) * 1099511628211
		}
	}
	return rand.New(rand.NewPCG(h, ordinal<<1|end))
}

// Hold delays connection requests. With it, a test can make both sides connect to each other at the same
// moment.
type Hold struct {
	f    *Fabric
	ways []way
	held []func()
}

// Hold starts to delay the requests from one place to another.
func (f *Fabric) Hold(from, to Place) *Hold {
	f.lock()
	defer f.unlock()
	h := &Hold{f: f, ways: f.ways(from, to)}
	f.holds = append(f.holds, h)
	return h
}

// Waiting returns the number of delayed requests.
func (h *Hold) Waiting() int {
	h.f.lock()
	defer h.f.unlock()
	return len(h.held)
}

// Release lets all delayed requests continue and ends the hold.
func (h *Hold) Release() {
	h.f.lock()
	defer h.f.unlock()
	if k := slices.Index(h.f.holds, h); k >= 0 {
		h.f.holds = slices.Delete(h.f.holds, k, k+1)
	}
	for _, do := range h.held {
		h.f.after(0, do)
	}
	h.held = nil
}

// hold delays a request if a Hold applies to it. It reports whether that is so.
func (f *Fabric) hold(w way, do func()) bool {
	for _, h := range f.holds {
		if slices.Contains(h.ways, w) {
			h.held = append(h.held, do)
			f.faults.held.Add(1)
			return true
		}
	}
	return false
}

// number returns a new number for a queue pair or a key.
func (f *Fabric) number() uint32 {
	f.numbers++
	return f.numbers
}

var _ verbs.Provider = (*Process)(nil)
