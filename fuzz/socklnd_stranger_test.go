package fuzz

import (
	"context"
	"encoding/binary"
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/simlnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// Times and bounds of a stranger's play.
const (
	longEnough = 15 * time.Minute // in which all that waits has come to its end
	// friendPatience is how long the peer beside the stranger may have to wait, for
	// connections too.
	friendPatience = 30 * time.Second
	// memoryMost bounds what a program may make the process allocate in all: it is
	// far above what the node, a few hours of timers and the largest payloads take.
	memoryMost = 256 << 20
)

// Addresses.
var (
	victimAddr   = netip.MustParseAddr("10.0.0.1")
	friendAddr   = netip.MustParseAddr("10.0.0.2")
	strangerAddr = [2]netip.Addr{netip.MustParseAddr("10.0.0.3"), netip.MustParseAddr("10.0.0.4")}
)

// Portals of the victim: on one is an MD, the other is lazy or empty.
const (
	openPortal = 1
	lazyPortal = 2
)

// stranger is a host that drives streams to and from a node by bytes.
type stranger struct {
	*testing.T
	bytes   []byte
	fabric  *simlnd.Fabric
	host    *simlnd.Host
	drivers []*socklnd.Driver
	closers []func(context.Context) error

	victim, friend     *node.Node
	victimID, friendID lnet.ProcessID
	victimDriver       lnd.Driver

	streams   []*strangerStream
	listeners []socklnd.Listener
	accepting sync.WaitGroup
	mu        sync.Mutex // guards accepted
	accepted  []*strangerStream

	operations []*strangerOperation
	life       int64 // the stranger's
	port       uint16
	dialled    uint64 // streams that the victim's acceptor had to take
	renewed    bool   // the victim's NI is not the first one
	allocated  uint64 // at the beginning
}

// strangerStream is one end of a connection in the stranger's hands.
type strangerStream struct {
	socklnd.Stream
	us      netip.Addr
	version protocol.Version
	order   byteOrder
	rest    []byte // of what was begun to be written
}

type byteOrder interface {
	binary.ByteOrder
	binary.AppendByteOrder
}

// strangerOperation is a PUT or GET of the victim, and how often it has ended.
type strangerOperation struct {
	mu              sync.Mutex
	handle          lnet.Handle
	refused         bool // the call failed: no event comes of it
	sends, unlinked int
	answers         int
}

// HandleEvent implements portals.Handler.
func (o *strangerOperation) HandleEvent(e *portals.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch e.Type {
	case portals.EventSend:
		o.sends++
	case portals.EventAck, portals.EventReply:
		o.answers++
	}
	if e.Unlinked {
		o.unlinked++
	}
}

func newStranger(t *testing.T, b []byte) *stranger {
	s := &stranger{T: t, bytes: b, life: 1000, port: 1023, fabric: simlnd.New(simlnd.Config{Seed: 1})}
	s.allocated = allocatedBytes()
	s.host = s.fabric.Host("stranger", strangerAddr[0].String(), strangerAddr[1].String())
	s.victim, s.victimDriver, s.victimID = s.newNode("victim", victimAddr)
	s.friend, _, s.friendID = s.newNode("friend", friendAddr)
	for _, n := range []*node.Node{s.victim, s.friend} {
		_, err := n.Attach(portals.Entry{Portal: openPortal, IgnoreBits: ^uint64(0)}, portals.MD{
			Bytes: make([]byte, 1<<16), Threshold: portals.Unlimited,
			Options: portals.OpPut | portals.OpGet | portals.Truncate | portals.ManageRemote,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range strangerAddr {
		l, err := s.host.Listen(netip.AddrPortFrom(a, 988), 16)
		if err != nil {
			t.Fatal(err)
		}
		s.listeners = append(s.listeners, l)
		s.accepting.Go(func() { s.accept(l, a) })
	}
	s.neighbourIsWell()
	return s
}

func (s *stranger) newNode(name string, a netip.Addr) (*node.Node, lnd.Driver, lnet.ProcessID) {
	c := socklnd.DefaultConfig()
	c.Accept = socklnd.AcceptAll
	d, err := simlnd.NewDriver(s.fabric.Host(name, a.String()), c)
	if err != nil {
		s.Fatal(err)
	}
	s.drivers = append(s.drivers, d)
	p := node.DefaultParameters()
	p.Discovery = discovery.Static
	n, err := node.New(node.Config{Parameters: &p, Seed: 1})
	if err != nil {
		s.Fatal(err)
	}
	s.closers = append(s.closers, n.Close)
	addNI(s.T, n, d, tcpNID(a))
	return n, d, lnet.ProcessID{NID: tcpNID(a), PID: lnet.PIDLustre}
}

func addNI(t *testing.T, n *node.Node, d lnd.Driver, nid lnet.NID) {
	t.Helper()
	if _, err := n.AddNI(context.Background(), d, lnd.Config{Net: nid.Net(), NID: nid}); err != nil {
		t.Fatal(err)
	}
}

func tcpNID(a netip.Addr) lnet.NID { return lnet.NIDFromIP(lnet.MakeNet(lnet.TypeTCP, 0), a) }

// accept takes the victim's calls.
func (s *stranger) accept(l socklnd.Listener, at netip.Addr) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.accepted = append(s.accepted, &strangerStream{Stream: c, us: at, version: protocol.V3, order: binary.LittleEndian})
		s.mu.Unlock()
	}
}

func (s *stranger) byte() byte {
	if len(s.bytes) == 0 {
		return 0
	}
	b := s.bytes[0]
	s.bytes = s.bytes[1:]
	return b
}

// stream is one of those that there are, nil if there is none.
func (s *stranger) stream() *strangerStream {
	s.mu.Lock()
	s.streams = append(s.streams, s.accepted...)
	s.accepted = nil
	s.mu.Unlock()
	if len(s.streams) == 0 {
		return nil
	}
	return s.streams[int(s.byte())%len(s.streams)]
}

// await lets time go by.
func (s *stranger) await(d time.Duration) { time.Sleep(d) }

// allocatedBytes are those that the process has allocated since its start.
func allocatedBytes() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// checkOperations looks whether each PUT and GET of the victim has ended, once.
func (s *stranger) checkOperations() {
	for k, o := range s.operations {
		o.mu.Lock()
		sends, unlinked := 1, 1
		if o.refused {
			sends = 0
		}
		if o.sends != sends || o.unlinked != unlinked || o.answers > 1 {
			s.Errorf("operation %d: %d SEND events, %d answers, %d ends; want %d, 1 at most, %d",
				k, o.sends, o.answers, o.unlinked, sends, unlinked)
		}
		o.mu.Unlock()
	}
}

// checkCredits looks whether nothing is under way at the victim.
func (s *stranger) checkCredits() {
	if c := s.victim.Counters(); c.Committed != 0 {
		s.Errorf("%d messages are under way", c.Committed)
	}
	for _, i := range s.victim.NIs()[1:] {
		if i.Credits.Available != i.Credits.Max {
			s.Errorf("%s: credits %+v", i.NID, i.Credits)
		}
	}
	for _, p := range s.victim.Peers() {
		for _, i := range p.NIs {
			if i.Credits.Available != i.Credits.Max || i.QueuedBytes != 0 {
				s.Errorf("peer %s: credits %+v, %d bytes queued", i.NID, i.Credits, i.QueuedBytes)
			}
		}
	}
}

// checkDriver looks whether the victim's driver knows its friend alone, and perhaps
// itself: a stranger that claims to be the victim is answered there, once for both
// ends of the connections.
func (s *stranger) checkDriver() {
	counters := map[string]uint64{}
	for _, c := range s.victim.NIs()[1].Driver {
		counters[c.Name] = c.Value
	}
	if counters["peers"] > 2 || counters["connections"] > 3+2*3 || counters["pending_messages"] != 0 {
		s.Errorf("%d peers, %d connections, %d pending messages are left",
			counters["peers"], counters["connections"], counters["pending_messages"])
	}
	refused := s.victim.Refusals()
	if told := counters["accepts_total"] + refused.Total(); !s.renewed && told < s.dialled {
		s.Errorf("%d of %d callers were accepted or refused", told, s.dialled)
	}
}

func (s *stranger) checkMemory() {
	if got := allocatedBytes() - s.allocated; got > memoryMost {
		s.Errorf("%d MiB were allocated", got>>20)
	}
}
