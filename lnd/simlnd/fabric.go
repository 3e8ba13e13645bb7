package simlnd

import (
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Fabric is a network of hosts. All methods are safe for concurrent use.
type Fabric struct {
	config Config
	start  time.Time
	done   chan struct{} // closed by Close
	faults counters

	// mu guards the following fields and the state of hosts and listeners. Conn.mu may be locked while mu
	// is held, but not the other way round.
	mu       sync.Mutex
	closed   bool
	hosts    map[string]*Host
	owners   map[netip.Addr]*Device
	conns    []*Conn // in the order of Conn.serial
	serial   uint64
	ordinals map[way]uint64 // number of connection attempts
	links    map[way]Link
	cuts     map[way]int // number of partitions in effect
	holds    []*Hold
	watchers []func(*Conn)
	lastWall int64
}

// A way is a pair of addresses, with a direction.
type way struct{ from, to netip.Addr }

// New returns a fabric without hosts.
func New(c Config) *Fabric {
	if c.SendBuffer == 0 {
		c.SendBuffer = defaultBuffer
	}
	if c.ReceiveBuffer == 0 {
		c.ReceiveBuffer = defaultBuffer
	}
	return &Fabric{
		config:   c,
		start:    time.Now(),
		done:     make(chan struct{}),
		hosts:    make(map[string]*Host),
		owners:   make(map[netip.Addr]*Device),
		ordinals: make(map[way]uint64),
		links:    make(map[way]Link),
		cuts:     make(map[way]int),
	}
}

// Close closes the fabric. It resets open streams, and nothing more happens in the fabric.
func (f *Fabric) Close() {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return
	}
	f.closed = true
	close(f.done)
	conns := f.conns
	f.conns = nil
	for _, h := range f.hosts {
		h.closeListeners()
	}
	f.mu.Unlock()
	for _, c := range conns {
		c.Reset()
		c.mu.Lock()
		c.release()
		c.mu.Unlock()
	}
}

// Host returns the host with the given name. If there is no such host, it creates one with a device for
// each address: "eth0" for the first, and so on. An address may have a prefix length, such as
// "10.0.0.1/16". The default is 24, or 64 for IPv6. Host panics if an address is malformed or used by
// another device.
func (f *Fabric) Host(name string, addrs ...string) *Host {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.hosts[name]
	if h == nil {
		h = &Host{fabric: f, name: name, listeners: make(map[netip.AddrPort]*listener), inUse: make(map[tuple]*stream)}
		f.hosts[name] = h
	}
	for _, a := range addrs {
		h.addDevice("", a)
	}
	return h
}

// SetLink sets the properties of the link between two places.
func (f *Fabric) SetLink(a, b Place, d Direction, l Link) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for w := range f.ways(a, b, d) {
		f.links[w] = l
	}
	f.refresh()
}

// Partition discards everything that is sent between two places, until Heal is called as often as
// Partition. Bytes are retransmitted afterwards unless the stream has timed out. Connection requests are
// repeated too.
func (f *Fabric) Partition(a, b Place, d Direction) { f.partition(a, b, d, 1) }

// Heal ends a Partition with the same arguments.
func (f *Fabric) Heal(a, b Place, d Direction) { f.partition(a, b, d, -1) }

func (f *Fabric) partition(a, b Place, d Direction, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for w := range f.ways(a, b, d) {
		f.cuts[w] = max(f.cuts[w]+n, 0)
	}
	if n > 0 {
		f.faults.partitions.Add(1)
	}
	f.refresh()
}

// ways yields the address pairs of two places in the direction d.
func (f *Fabric) ways(a, b Place, d Direction) func(func(way) bool) {
	return func(yield func(way) bool) {
		for _, x := range a.addresses() {
			for _, y := range b.addresses() {
				if d.forward() && !yield(way{x, y}) || d.backward() && !yield(way{y, x}) {
					return
				}
			}
		}
	}
}

// Conns returns the connections with at least one open end, oldest first.
func (f *Fabric) Conns() []*Conn {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.conns)
}

// ConnsBetween returns the connections of Conns between two places, opened from either side.
func (f *Fabric) ConnsBetween(a, b Place) []*Conn {
	f.mu.Lock()
	defer f.mu.Unlock()
	var found []*Conn
	for _, c := range f.conns {
		from, to := c.From().Addr(), c.To().Addr()
		if slices.Contains(a.addresses(), from) && slices.Contains(b.addresses(), to) ||
			slices.Contains(b.addresses(), from) && slices.Contains(a.addresses(), to) {
			found = append(found, c)
		}
	}
	return found
}

// OnConnect sets a function to call for each new connection before either end can use it, in the
// goroutine that dialled. It can inject faults into the connection.
func (f *Fabric) OnConnect(established func(*Conn)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watchers = append(f.watchers, established)
}

// now returns the time since the fabric was created.
func (f *Fabric) now() time.Duration { return time.Since(f.start) }

// wall is a wall clock that never returns the same time twice, so that every life of an interface has a
// different incarnation.
func (f *Fabric) wall() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lastWall = max(f.lastWall+1, time.Now().UnixNano())
	return time.Unix(0, f.lastWall)
}

// link returns the properties of a way. f.mu is held.
func (f *Fabric) link(w way) Link {
	if l, ok := f.links[w]; ok {
		return l
	}
	return f.config.Link
}

// open reports whether data sent on a way arrives. f.mu is held.
func (f *Fabric) open(w way) bool {
	from, to := f.owners[w.from], f.owners[w.to]
	return from != nil && to != nil && from.up && to.up && f.cuts[w] == 0
}

// refresh updates the connections after a change of links, partitions or devices. f.mu is held.
func (f *Fabric) refresh() {
	for _, c := range f.conns {
		f.adapt(c)
	}
}

func (f *Fabric) adapt(c *Conn) {
	forward := way{c.From().Addr(), c.To().Addr()}
	backward := way{forward.to, forward.from}
	c.mu.Lock()
	c.pipes[0].link, c.pipes[1].link = f.link(forward), f.link(backward)
	c.mu.Unlock()
	c.block(!f.open(forward), !f.open(backward))
}

// forget removes a closed end from the host's table. It also removes the connection from the fabric's if
// over is set.
func (f *Fabric) forget(s *stream, over bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if d := f.owners[s.local.Addr()]; d != nil {
		d.host.unuse(s)
	}
	if !over {
		return
	}
	if i, ok := slices.BinarySearchFunc(f.conns, s.c.serial, func(c *Conn, n uint64) int {
		return int(int64(c.serial - n))
	}); ok {
		f.conns = slices.Delete(f.conns, i, i+1)
	}
}
