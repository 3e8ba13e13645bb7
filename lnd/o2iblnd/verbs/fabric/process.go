package fabric

import (
	"cmp"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
)

// Process is a process on a host. It implements verbs.Provider. Where hardware may behave in several ways, it
// behaves in the way that is hardest for a driver:
//   - A slot of the send queue becomes free when the completion of its request, or of a
//     later request, is fetched. A receive's slot becomes free with its own completion.
//   - Completions of a destroyed queue pair stay in their queue.
//   - Keys for local and for remote use differ, and only addresses of Memory.Addr are valid.
//   - A queue pair of a removed device, or of an overflowed completion queue, has no
//     more completions.
//   - A side that has called Disconnect gets the event Disconnected only after the
//     other side has called Disconnect or Destroy too, or after minutes.
//   - Receives posted after an error are discarded.
//   - Requests posted before the connection is established fail with EINVAL.
type Process struct {
	host *Host

	polls, posts, sleeps, events, others atomic.Uint64

	// Guarded by Fabric.mu.
	dead     bool
	plain    bool // DropRights was called
	devices  map[*Device]*opened
	channels []*channel
}

// Open starts a process on the host. It switches the host on if it is off.
func (h *Host) Open() *Process {
	h.fabric.lock()
	defer h.fabric.unlock()
	h.net.Off = false
	p := &Process{host: h, devices: make(map[*Device]*opened)}
	h.processes = append(h.processes, p)
	return p
}

// Wall is a wall clock that never returns the same time twice, so that an interface has another incarnation
// each time it is opened.
func (p *Process) Wall() time.Time {
	p.host.fabric.lock()
	defer p.host.fabric.unlock()
	return p.host.fabric.net.Wall()
}

// Host returns the process's host.
func (p *Process) Host() *Host { return p.host }

// DropRights removes CAP_NET_BIND_SERVICE from the process: attempts to use ports below 1024 return EACCES.
func (p *Process) DropRights() {
	p.host.fabric.lock()
	defer p.host.fabric.unlock()
	p.plain = true
}

// Kill ends the process as a kernel ends a killed one: peers that are connected to it, or wait for its answer,
// are notified (o2iblnd 12.1, 6). Afterwards all calls of the process fail with verbs.ErrClosed.
func (p *Process) Kill() {
	f := p.host.fabric
	f.lock()
	defer f.unlock()
	if !p.dead {
		f.faults.kills.Add(1)
		p.end(func(i *id) { i.destroy() })
	}
}

// end ends the process. It calls bury for each of its IDs, which decides whether the peer is notified.
func (p *Process) end(bury func(*id)) {
	for _, i := range p.sortedIDs() {
		bury(i)
	}
	p.dead = true
	for _, c := range p.channels {
		c.close()
	}
	for _, d := range p.devices {
		d.close()
	}
	if k := slices.Index(p.host.processes, p); k >= 0 {
		p.host.processes = slices.Delete(p.host.processes, k, k+1)
	}
}

// sortedIDs returns the IDs of the process in the order of their creation.
func (p *Process) sortedIDs() (ids []*id) {
	for _, c := range p.channels {
		for i := range c.ids {
			ids = append(ids, i)
		}
	}
	slices.SortFunc(ids, func(a, b *id) int { return cmp.Compare(a.serial, b.serial) })
	return ids
}

// Crossings implements verbs.Provider.
func (p *Process) Crossings() verbs.Crossings {
	return verbs.Crossings{Polls: p.polls.Load(), Posts: p.posts.Load(), Sleeps: p.sleeps.Load(), Events: p.events.Load(), Others: p.others.Load()}
}

// Close implements verbs.Provider.
func (p *Process) Close() error {
	f := p.host.fabric
	f.lock()
	defer f.unlock()
	open := 0
	for _, c := range p.channels {
		if !c.closed {
			open++
		}
	}
	if n := len(p.devices); !p.dead && n+open > 0 {
		return verbs.Wrap(syscall.EBUSY, "close: %d devices and %d channels left", n, open)
	}
	p.end(func(*id) {})
	return nil
}

// channel implements verbs.Channel.
type channel struct {
	p     *Process
	ready sync.Cond

	// Guarded by Fabric.mu.
	closed bool
	ids    map[*id]struct{}
	queue  []verbs.Event
}

// OpenChannel implements verbs.Provider.
func (p *Process) OpenChannel() (verbs.Channel, error) {
	f := p.host.fabric
	p.others.Add(1)
	f.lock()
	defer f.unlock()
	if p.dead || f.closed {
		return nil, verbs.Wrap(verbs.ErrClosed, "event channel")
	}
	c := &channel{p: p, ids: make(map[*id]struct{})}
	c.ready.L = &f.mu
	p.channels = append(p.channels, c)
	return c, nil
}

func (c *channel) Listen(addr netip.AddrPort, backlog int) (verbs.ID, error) {
	f, h := c.p.host.fabric, c.p.host
	c.p.others.Add(1)
	f.lock()
	defer f.unlock()
	port, err := c.local(addr.Addr())
	switch {
	case err != nil:
	case addr.Port() < privilegedPorts && c.p.plain:
		err = syscall.EACCES
	case h.listeners[addr] != nil:
		err = syscall.EADDRINUSE
	}
	if err != nil {
		return nil, verbs.Wrap(err, "listen at %s", addr)
	}
	i := c.add()
	i.local, i.port, i.state, i.backlog = addr, port, cmListening, backlog
	h.listeners[addr] = i
	return i, nil
}

// local returns the port that has the address a, which must be on the host.
func (c *channel) local(a netip.Addr) (*Port, error) {
	port := c.p.host.fabric.port(a)
	switch {
	case c.closed:
		return nil, verbs.ErrClosed
	case port == nil || port.device.host != c.p.host:
		return nil, syscall.EADDRNOTAVAIL
	case port.device.removed:
		return nil, verbs.ErrNoDevice
	}
	return port, nil
}

// add creates an ID.
func (c *channel) add() *id {
	f := c.p.host.fabric
	f.seq++
	i := &id{ch: c, f: f, serial: f.seq}
	c.ids[i] = struct{}{}
	return i
}

func (c *channel) Dial(d verbs.Dial) (verbs.ID, error) {
	f, h := c.p.host.fabric, c.p.host
	c.p.others.Add(1)
	f.lock()
	defer f.unlock()
	port, err := c.local(d.From)
	if err == nil && d.Privileged && c.p.plain {
		err = syscall.EACCES
	}
	if err != nil {
		return nil, verbs.Wrap(err, "dial %s from %s", d.To, d.From)
	}
	i := c.add()
	number := uint16(privilegedPorts - 1)
	if !d.Privileged {
		number = max(h.lastPort+1, firstFreePort)
		h.lastPort = number
	}
	i.local, i.remote, i.port, i.state = netip.AddrPortFrom(d.From, number), d.To, port, cmResolving
	w := i.way()
	i.random = f.net.Random(w, f.net.Attempt(w)<<1)
	i.resolve(verbs.EventAddrResolved, verbs.EventAddrError, cmAddrResolved, d.Timeout)
	return i, nil
}

func (c *channel) Events(ev []verbs.Event) (int, error) {
	f := c.p.host.fabric
	f.lock()
	defer f.unlock()
	for len(c.queue) == 0 && !c.closed {
		c.ready.Wait()
	}
	if c.closed {
		return 0, verbs.Wrap(verbs.ErrClosed, "connection events")
	}
	c.p.events.Add(1)
	n := copy(ev, c.queue)
	for k := range ev[:n] {
		if l, ok := ev[k].Listener.(*id); ok {
			l.unharvested--
		}
	}
	c.queue = slices.Delete(c.queue, 0, n)
	return n, nil
}

func (c *channel) Close() error {
	f := c.p.host.fabric
	f.lock()
	defer f.unlock()
	if c.closed {
		return verbs.Wrap(verbs.ErrClosed, "close the event channel")
	}
	if n := c.held(); n > 0 {
		return verbs.Wrap(syscall.EBUSY, "close the event channel: %d IDs left", n)
	}
	for i := range c.ids {
		i.destroy() // only IDs of requests that the process has not fetched are left
	}
	c.close()
	return nil
}

// held returns the number of IDs that the process knows: those that it has created, and those of requests that
// it has fetched.
func (c *channel) held() int {
	n := len(c.ids)
	for k := range c.queue {
		if c.queue[k].Kind == verbs.EventConnectRequest {
			n--
		}
	}
	return n
}

func (c *channel) close() {
	c.closed = true
	c.queue = nil
	c.ready.Broadcast()
}
