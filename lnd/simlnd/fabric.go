package simlnd

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/lnetd/lnetd/lnd/simlnd/network"
)

// Fabric is a network of hosts. All methods are safe for concurrent use.
type Fabric struct {
	config Config
	done   chan struct{} // closed by Close
	faults counters

	// mu guards the following fields and the state of hosts and listeners. A goroutine that holds mu may lock a
	// Conn.mu, but a goroutine that holds a Conn.mu must not lock mu.
	mu       sync.Mutex
	net      *network.Network[Link]
	closed   bool
	conns    []*Conn // in the order of Conn.serial
	serial   uint64
	watchers []func(*Conn) // set by OnConnect
}

// New returns a fabric without hosts.
func New(c Config) *Fabric {
	if c.SendBuffer == 0 {
		c.SendBuffer = defaultBuffer
	}
	if c.ReceiveBuffer == 0 {
		c.ReceiveBuffer = defaultBuffer
	}
	f := &Fabric{config: c, done: make(chan struct{})}
	f.net = network.New(c.Seed, c.Link, &f.mu)
	return f
}

// Close closes the fabric. It resets open streams, and nothing happens on the fabric any more.
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
	for _, h := range f.net.Hosts() {
		h.Owner.(*Host).closeListeners()
	}
	f.mu.Unlock()
	for _, c := range conns {
		c.Reset()
		c.mu.Lock()
		c.release()
		c.mu.Unlock()
	}
}

// Host returns the host with the given name, and creates it if it does not exist. For each address it adds a
// device. The devices are named "eth0" and so on. An address may have a prefix length, such as "10.0.0.1/16";
// the default is 24, or 64 for IPv6. Host panics if an address is malformed or used by another device.
func (f *Fabric) Host(name string, addrs ...string) *Host {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, created := f.net.Host(name)
	if created {
		n.Owner = &Host{fabric: f, net: n, listeners: make(map[netip.AddrPort]*listener), inUse: make(map[tuple]*stream)}
	}
	h := n.Owner.(*Host)
	for _, a := range addrs {
		h.addDevice("", a)
	}
	return h
}

// SetLink sets the properties of the links between two places in the direction d.
func (f *Fabric) SetLink(a, b Place, d Direction, l Link) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.net.SetLink(ways(a, b, d), l)
	f.refresh()
}

// Partition discards everything that is sent between two places in the direction d, until Heal has been called
// as often as Partition. Afterwards, bytes are retransmitted if their stream has not timed out, and connection
// requests are repeated.
func (f *Fabric) Partition(a, b Place, d Direction) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.net.Partition(ways(a, b, d))
	f.refresh()
}

// Heal ends a Partition with the same arguments.
func (f *Fabric) Heal(a, b Place, d Direction) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.net.Heal(ways(a, b, d))
	f.refresh()
}

// ways returns the ways between two places in the direction d, that is, the pairs of their addresses. f.mu is
// held.
func ways(a, b Place, d Direction) []network.Way {
	return network.Ways(a.addresses(), b.addresses(), d)
}

// Conns returns the connections of which at least one end is open, oldest first.
func (f *Fabric) Conns() []*Conn {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.conns)
}

// ConnsBetween returns the connections between two places, opened from either side, of which at least one end
// is open.
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

// OnConnect registers a function that is called for each new connection before either end can use it. It may
// inject faults into the connection. The goroutine that opens the connection calls it.
func (f *Fabric) OnConnect(established func(*Conn)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watchers = append(f.watchers, established)
}

// wall is a wall clock that never returns the same time twice.
func (f *Fabric) wall() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.net.Wall()
}

// device returns the device that has an address, or nil. f.mu is held.
func (f *Fabric) device(a netip.Addr) *Device {
	if p := f.net.Port(a); p != nil {
		return p.Owner.(*Device)
	}
	return nil
}

// refresh updates the connections after a change of links, partitions or devices. f.mu is held.
func (f *Fabric) refresh() {
	for _, c := range f.conns {
		f.adapt(c)
	}
}

// adapt updates the properties of a connection's directions. f.mu is held.
func (f *Fabric) adapt(c *Conn) {
	forward := network.Way{From: c.From().Addr(), To: c.To().Addr()}
	backward := forward.Back()
	c.mu.Lock()
	c.pipes[0].link, c.pipes[1].link = f.net.Link(forward), f.net.Link(backward)
	c.mu.Unlock()
	c.block(!f.net.Open(forward), !f.net.Open(backward))
}

// forget removes a closed end from its host's table. If over is set, the other end is closed too, and forget
// also removes the connection from the fabric.
func (f *Fabric) forget(s *stream, over bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if d := f.device(s.local.Addr()); d != nil {
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
