package network

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// Network is a network of hosts. L is the type of the properties of a link, which the user of the package
// defines.
type Network[L any] struct {
	seed     uint64
	link     L // properties of a link that SetLink has not set
	lock     sync.Locker
	start    time.Time
	hosts    map[string]*Host
	owners   map[netip.Addr]*Port // the port that has each address
	links    map[Way]L
	cuts     map[Way]int // number of partitions that are in effect
	holds    []*Hold[L]
	attempts map[Way]uint64 // attempts to connect so far
	lastWall int64          // last result of Wall, in ns
	counters counters
}

// Host is a host of a network. Owner is the object of the package's user that represents the host.
type Host struct {
	Name  string
	Off   bool // after a power failure: its ports do not work
	Owner any

	number int // hosts are numbered in the order of creation
	ports  []*Port
}

// Port is a point at which a host is connected to the network. Owner is the object of the package's user that
// represents the port.
type Port struct {
	Host    *Host
	Down    bool // switched off
	Removed bool // its addresses can be given to other ports
	Owner   any

	prefixes []netip.Prefix
}

// New returns a network without hosts. All random numbers depend on the seed. link is the properties of all
// links for which SetLink is not called. lock is the lock of the caller, which guards the network.
func New[L any](seed uint64, link L, lock sync.Locker) *Network[L] {
	return &Network[L]{
		seed: seed, link: link, lock: lock, start: time.Now(),
		hosts:    make(map[string]*Host),
		owners:   make(map[netip.Addr]*Port),
		links:    make(map[Way]L),
		cuts:     make(map[Way]int),
		attempts: make(map[Way]uint64),
	}
}

// Host returns the host with the given name, and creates it if necessary. created reports whether it is
// new.
func (n *Network[L]) Host(name string) (h *Host, created bool) {
	h, found := n.hosts[name]
	if !found {
		h = &Host{Name: name, number: len(n.hosts)}
		n.hosts[name] = h
	}
	return h, !found
}

// Hosts returns all hosts in the order of creation.
func (n *Network[L]) Hosts() []*Host {
	hosts := make([]*Host, 0, len(n.hosts))
	for _, h := range n.hosts {
		hosts = append(hosts, h)
	}
	slices.SortFunc(hosts, func(a, b *Host) int { return cmp.Compare(a.number, b.number) })
	return hosts
}

// AddPort adds a port to the host.
func (n *Network[L]) AddPort(h *Host, owner any) *Port {
	p := &Port{Host: h, Owner: owner}
	h.ports = append(h.ports, p)
	return p
}

// Assign adds an address to a port. It may have a prefix length; the default is 24, or 64 for IPv6. Assign
// panics if the address is malformed or belongs to another port, unless that port is removed.
func (n *Network[L]) Assign(p *Port, addr string) {
	prefix := parsePrefix(addr)
	a := prefix.Addr()
	if o := n.owners[a]; o != nil && !o.Removed {
		panic(fmt.Sprintf("network: %s: address %s belongs to %s", p.Host.Name, a, o.Host.Name))
	}
	n.owners[a] = p
	p.prefixes = append(p.prefixes, prefix)
}

func parsePrefix(s string) netip.Prefix {
	if strings.Contains(s, "/") {
		return netip.MustParsePrefix(s)
	}
	a := netip.MustParseAddr(s)
	if a.Is4() {
		return netip.PrefixFrom(a, 24)
	}
	return netip.PrefixFrom(a, 64)
}

// Unassign removes all addresses of a port.
func (n *Network[L]) Unassign(p *Port) {
	for _, a := range p.Addresses() {
		if n.owners[a] == p {
			delete(n.owners, a)
		}
	}
	p.prefixes = nil
}

// Port returns the port that has an address, or nil.
func (n *Network[L]) Port(a netip.Addr) *Port { return n.owners[a] }

// SetDown switches a port off or on. It returns false if the port is already in this state.
func (n *Network[L]) SetDown(p *Port, down bool) bool {
	if p.Down == down {
		return false
	}
	if p.Down = down; down {
		n.counters.down.Add(1)
	}
	return true
}

// Prefixes returns the port's addresses with their prefix lengths. The caller must not change them.
func (p *Port) Prefixes() []netip.Prefix { return p.prefixes }

// Addresses returns the port's addresses.
func (p *Port) Addresses() []netip.Addr {
	addrs := make([]netip.Addr, len(p.prefixes))
	for k, x := range p.prefixes {
		addrs[k] = x.Addr()
	}
	return addrs
}

// Addresses returns the addresses of all ports of the host.
func (h *Host) Addresses() (addrs []netip.Addr) {
	for _, p := range h.ports {
		addrs = append(addrs, p.Addresses()...)
	}
	return addrs
}

// Works reports whether the port sends and receives. It returns false for a nil port.
func (p *Port) Works() bool { return p != nil && !p.Down && !p.Removed && !p.Host.Off }
