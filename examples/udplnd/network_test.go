package udplnd

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

// packets is a packet network in memory. A datagram takes a moment. It is lost if the receiver has not read
// the queueLength datagrams before it. A datagram for which unlucky returns true is lost, or comes twice.
type packets struct {
	unlucky func() bool

	mu      sync.Mutex
	sockets map[netip.AddrPort]*packetSocket
}

const (
	latency     = 100 * time.Microsecond
	queueLength = 200
)

func (n *packets) listen(addr *net.UDPAddr) (net.PacketConn, error) {
	at := addr.AddrPort()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.sockets[at] != nil {
		return nil, syscall.EADDRINUSE
	}
	s := &packetSocket{network: n, at: at}
	s.arrived.L = &n.mu
	n.sockets[at] = s
	return s, nil
}

type packet struct {
	from netip.AddrPort
	due  time.Time
	data []byte
}

type packetSocket struct {
	net.PacketConn // nil: the driver uses no other methods
	network        *packets
	at             netip.AddrPort
	queue          []packet
	closed         bool
	arrived        sync.Cond
}

func (s *packetSocket) WriteTo(b []byte, addr net.Addr) (int, error) {
	to := addr.(*net.UDPAddr).AddrPort()
	n := s.network
	n.mu.Lock()
	defer n.mu.Unlock()
	if s.closed {
		return 0, net.ErrClosed
	}
	copies := 1
	if n.unlucky() {
		copies = 0
	} else if n.unlucky() {
		copies = 2
	}
	for range copies {
		if r := n.sockets[to]; r != nil && len(r.queue) < queueLength {
			r.queue = append(r.queue, packet{s.at, time.Now().Add(latency), bytes.Clone(b)})
			r.arrived.Signal()
		}
	}
	return len(b), nil
}

func (s *packetSocket) ReadFrom(b []byte) (int, net.Addr, error) {
	s.network.mu.Lock()
	defer s.network.mu.Unlock()
	for {
		switch {
		case s.closed:
			return 0, nil, net.ErrClosed
		case len(s.queue) == 0:
			s.arrived.Wait()
			continue
		}
		p := s.queue[0]
		if wait := time.Until(p.due); wait > 0 {
			s.network.mu.Unlock()
			time.Sleep(wait)
			s.network.mu.Lock()
			continue
		}
		s.queue = s.queue[1:]
		return copy(b, p.data), net.UDPAddrFromAddrPort(p.from), nil
	}
}

func (s *packetSocket) Close() error {
	s.network.mu.Lock()
	defer s.network.mu.Unlock()
	s.closed = true
	delete(s.network.sockets, s.at)
	s.arrived.Broadcast()
	return nil
}

// pair is an ordered pair of addresses.
type pair struct{ from, to netip.AddrPort }

func (p pair) back() pair { return pair{p.to, p.from} }

// faults makes sockets lose datagrams, hold them, and end links.
type faults struct {
	listen func(at *net.UDPAddr) (net.PacketConn, error)

	mu      sync.Mutex
	sockets map[netip.AddrPort]*faultySocket
	lossy   map[pair]bool
	held    map[pair][][]byte // calls, where they are held
	last    map[pair]prefix   // of an open link
	cut     map[pair]int      // bytes until a new link is cut
}

func newFaults(listen func(at *net.UDPAddr) (net.PacketConn, error)) *faults {
	return &faults{
		listen: listen, sockets: make(map[netip.AddrPort]*faultySocket), lossy: make(map[pair]bool),
		held: make(map[pair][][]byte), last: make(map[pair]prefix), cut: make(map[pair]int),
	}
}

func (f *faults) open(addr *net.UDPAddr) (net.PacketConn, error) {
	at := addr.AddrPort()
	s, err := f.listen(addr)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	faulty := &faultySocket{s, f, at}
	f.sockets[at] = faulty
	return faulty, nil
}

type faultySocket struct {
	net.PacketConn
	f  *faults
	at netip.AddrPort
}

func (s *faultySocket) WriteTo(b []byte, addr net.Addr) (int, error) {
	to := addr.(*net.UDPAddr).AddrPort()
	way, cut := pair{s.at, to}, false
	s.f.mu.Lock()
	var d prefix
	_, _ = binary.Decode(b, binary.BigEndian, &d)
	if s.f.lossy[way] {
		s.f.mu.Unlock()
		return len(b), nil
	}
	if held, ok := s.f.held[way]; ok && d.Kind == hello && d.To == 0 {
		s.f.held[way] = append(held, bytes.Clone(b))
		s.f.mu.Unlock()
		return len(b), nil
	}
	if d.Kind == header || d.Kind == data || d.Kind == ack {
		s.f.last[way] = d
	}
	if left, ok := s.f.cut[way]; ok {
		s.f.cut[way] = left - len(b)
		if cut = left < len(b); cut {
			delete(s.f.cut, way)
		}
	}
	s.f.mu.Unlock()
	n, err := s.PacketConn.WriteTo(b, addr)
	if cut {
		s.f.kill(way)
	}
	return n, err
}

// kill sends both sides a reset of their link.
func (f *faults) kill(way pair) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, way := range []pair{way, way.back()} {
		d, ok := f.last[way]
		s := f.sockets[way.from]
		if !ok || s == nil {
			continue
		}
		d.Kind, d.Number = reset, 0
		b, _ := binary.Append(nil, binary.BigEndian, d)
		_, _ = s.PacketConn.WriteTo(b, net.UDPAddrFromAddrPort(way.to))
	}
}

func (f *faults) isolate(way pair) (heal func()) {
	f.lose(way, true)
	return func() { f.lose(way, false) }
}

func (f *faults) lose(way pair, lossy bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lossy[way], f.lossy[way.back()] = lossy, lossy
}

func (f *faults) hold(way pair) (release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held[way], f.held[way.back()] = nil, nil
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, way := range []pair{way, way.back()} {
			for _, b := range f.held[way] {
				_, _ = f.sockets[way.from].PacketConn.WriteTo(b, net.UDPAddrFromAddrPort(way.to))
			}
			delete(f.held, way)
		}
	}
}

func (f *faults) cutAfter(way pair, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cut[way] = n
}
