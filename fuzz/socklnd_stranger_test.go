package fuzz

import (
	"encoding/binary"
	"net/netip"
	"runtime/metrics"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd/simlnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// Time limits and bounds of a run.
const (
	longEnough = 15 * time.Minute // everything that waits has ended after this time
	// friendPatience is how long the well-behaved peer may have to wait, including for connections.
	friendPatience = 30 * time.Second
	// memoryMost is how many bytes the process may allocate during a program. It is far more than the
	// node, a few hours of timers and the largest payloads need.
	memoryMost = 256 << 20
)

// Addresses.
var (
	victimAddr   = netip.MustParseAddr("10.0.0.1")
	friendAddr   = netip.MustParseAddr("10.0.0.2")
	strangerAddr = [2]netip.Addr{netip.MustParseAddr("10.0.0.3"), netip.MustParseAddr("10.0.0.4")}
)

// Portals of the victim: one has an MD, the other is lazy or empty.
const (
	openPortal = 1
	lazyPortal = 2
)

// strangerVictim is the target of the attack: a driver alone, or a whole node.
type strangerVictim interface {
	// ask sends the stranger a PUT or GET of size bytes, chosen by b.
	ask(to lnet.ProcessID, size int, b byte)
	// restart removes the NI, waits, and opens it again in a new life.
	restart(pause time.Duration)
	// setLazy makes PUTs wait on lazyPortal, lets them in, or drops them, by b.
	setLazy(b byte)
	// checkWorks checks that a well-behaved peer can exchange messages with the victim.
	checkWorks()
	// check waits until the stranger's connections have ended, and checks that nothing is left.
	check()
	close()
}

// stranger is a host that opens and accepts streams with a victim, driven by bytes.
type stranger struct {
	*testing.T
	bytes  []byte
	fabric *simlnd.Fabric
	host   *simlnd.Host
	victim strangerVictim

	victimID, friendID lnet.ProcessID

	streams   []*strangerStream
	listeners []socklnd.Listener
	accepting sync.WaitGroup
	mu        sync.Mutex // guards accepted
	accepted  []*strangerStream

	handles   []lnet.Handle // of the victim's messages
	life      int64         // the stranger's
	port      uint16
	dialled   uint64 // streams that the victim's acceptor had to accept
	renewed   bool   // the victim's NI is not the first one
	allocated uint64 // at the start
}

// strangerStream is the stranger's end of a connection.
type strangerStream struct {
	socklnd.Stream
	us      netip.Addr
	version protocol.Version
	order   byteOrder
	rest    []byte // of a partial write
}

type byteOrder interface {
	binary.ByteOrder
	binary.AppendByteOrder
}

// newStranger returns a stranger on a fabric with a victim that build adds.
func newStranger(t *testing.T, b []byte, build func(*stranger) strangerVictim) *stranger {
	s := &stranger{
		T: t, bytes: b, life: 1000, port: 1023, fabric: simlnd.New(simlnd.Config{Seed: 1}),
		victimID: lnet.ProcessID{NID: tcpNID(victimAddr), PID: lnet.PIDLustre},
		friendID: lnet.ProcessID{NID: tcpNID(friendAddr), PID: lnet.PIDLustre},
	}
	s.allocated = allocatedBytes()
	s.host = s.fabric.Host("stranger", strangerAddr[0].String(), strangerAddr[1].String())
	s.victim = build(s)
	for _, a := range strangerAddr {
		l, err := s.host.Listen(netip.AddrPortFrom(a, 988), 16)
		if err != nil {
			t.Fatal(err)
		}
		s.listeners = append(s.listeners, l)
		s.accepting.Go(func() { s.accept(l, a) })
	}
	s.victim.checkWorks()
	return s
}

func tcpNID(a netip.Addr) lnet.NID { return lnet.NIDFromIP(lnet.MakeNet(lnet.TypeTCP, 0), a) }

// accept accepts the victim's connections.
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

// stream draws an open stream, or returns nil if there are no streams.
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

// await lets time pass in the stranger's bubble. It panics outside of a bubble.
func (s *stranger) await(d time.Duration) {
	synctest.Wait()
	time.Sleep(d)
}

// allocatedBytes returns the bytes that the process has allocated since its start. Unlike
// runtime.ReadMemStats it does not stop the process.
func allocatedBytes() uint64 {
	sample := [1]metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample[:])
	return sample[0].Value.Uint64()
}

func (s *stranger) checkMemory() {
	if got := allocatedBytes() - s.allocated; got > memoryMost {
		s.Errorf("%d MiB were allocated", got>>20)
	}
}
