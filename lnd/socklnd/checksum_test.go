package socklnd

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
)

// withSum sets the checksum of the message in b, which has payload bytes of payload. If right is
// false, it sets a wrong one.
func withSum(v protocol.Version, b []byte, payload int, right bool) []byte {
	sum := protocol.Checksum(protocol.ChecksumInit, b)
	if v > protocol.V2 {
		sum = protocol.Checksum(protocol.ChecksumInit, b[len(b)-payload:])
	}
	if !right {
		sum ^= 0x100
	}
	binary.LittleEndian.PutUint32(b[4:], sum)
	return b
}

// socklnd 9 (2), 9 (4)
func TestChecksumsOnV2BothWays(t *testing.T) {
	n := start(t, func(c *Config) { c.EnableChecksum = true })
	p := newPuppet(n)
	p.version = protocol.V2
	w := p.connect(protocol.Control)
	for k, size := range []int{0, 10, 5000, 100000} {
		w.send(withSum(protocol.V2, w.message(pattern(size), func(f *protocol.Frame, _ *lnet.Header) {
			f.Request = uint64(k + 2)
		}), size, true))
		n.arrival()
		checkSum(t, w.read(protocol.FrameSize))
		s := n.put(p.id(), size)
		checkSum(t, w.read(protocol.V2.Overhead()+size))
		s.done()
	}
}

// TestInjectedChecksumError checks that exactly the first checksum of an interface is wrong, and not 0.
//
// socklnd 19 (3)
func TestInjectedChecksumError(t *testing.T) {
	n := start(t, func(c *Config) { c.EnableChecksum, c.InjectChecksumError = true, true })
	var wrong []bool
	for range 2 {
		p := newPuppet(n)
		p.version = protocol.V2
		w := p.connect(protocol.Control)
		for range 2 {
			s := n.put(p.id(), 10)
			frame := w.read(protocol.V2.Overhead() + 10)
			s.done()
			sum := binary.LittleEndian.Uint32(frame[4:])
			clear(frame[4:8])
			wrong = append(wrong, sum != 0 && sum != protocol.Checksum(protocol.ChecksumInit, frame))
		}
	}
	if want := []bool{true, false, false, false}; !slices.Equal(wrong, want) {
		t.Errorf("wrong checksums %v, want %v", wrong, want)
	}
}

// TestChecksumsCostNoMemory checks that computing checksums for sending allocates nothing.
func TestChecksumsCostNoMemory(t *testing.T) {
	n := start(t, func(c *Config) { c.EnableChecksum = true })
	p := newPuppet(n)
	p.version = protocol.V2
	w := p.connect(protocol.Control)
	s := n.put(p.id(), 5000)
	w.read(protocol.V2.Overhead() + 5000)
	s.done()
	c := n.Of(p.nid())[0].set.Load().control[0]
	takeRole(c)
	defer c.releaseWriter()
	f := protocol.Frame{Type: protocol.FrameNoop, Ack: 5}
	step := func() {
		c.w.heads = c.w.heads[:0]
		if err := c.appendHead(&s.tx, 0); err != nil {
			t.Fatal(err)
		}
		c.w.heads = f.Append(c.w.heads, binary.LittleEndian)
		c.checksumNoop(c.w.heads[len(c.w.heads)-protocol.FrameSize:])
	}
	if got := testing.AllocsPerRun(1000, step); got != 0 {
		t.Errorf("%v allocations for a message and a NOOP", got)
	}
}

// takeRole makes the caller the writer of c. The previous writer gives up that role only shortly
// after the peer has received the bytes, so takeRole waits.
func takeRole(c *conn) {
	for {
		c.mu.Lock()
		taken := !c.writing
		c.writing = true
		c.mu.Unlock()
		if taken {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// checkSum verifies the checksum of a V2 message.
func checkSum(t *testing.T, b []byte) {
	t.Helper()
	got := binary.LittleEndian.Uint32(b[4:])
	clear(b[4:8])
	if want := protocol.Checksum(protocol.ChecksumInit, b); got != want {
		t.Errorf("checksum %#08x of %d bytes, want %#08x", got, len(b), want)
	}
}

// socklnd 9 (3)
func TestNoChecksumsFromV3On(t *testing.T) {
	for v := protocol.V3; v <= protocol.V4; v++ {
		n := start(t, func(c *Config) { c.EnableChecksum = true })
		p := newPuppet(n)
		p.version = v
		w := p.connect(protocol.Control)
		s := n.put(p.id(), 100)
		if f, _, _ := w.receive(); f.Checksum != 0 {
			t.Errorf("%s: checksum %#08x", v, f.Checksum)
		}
		s.done()
	}
}

// socklnd 9 (4), 9 (6), 15.2 (9)
func TestReceivedChecksumsAreVerified(t *testing.T) {
	for v := protocol.V2; v <= protocol.V4; v++ {
		for _, size := range []int{10, 5000, 100000} {
			t.Run(fmt.Sprintf("%s %d", v, size), func(t *testing.T) {
				n := start(t, nil)
				p := newPuppet(n)
				p.version = v
				w := p.connect(protocol.Control)
				w.send(withSum(v, w.message(pattern(size), nil), size, true))
				n.arrival()

				// A payload that is truncated is not verified, so a wrong checksum has no effect.
				n.onArrival(func(a *arrival) error { a.place(memory.Of(make([]byte, size/2))); return nil })
				w.send(withSum(v, w.message(pattern(size), nil), size, false))
				n.arrival()

				n.onArrival(func(a *arrival) error { a.place(memory.Of(make([]byte, size))); return nil })
				w.send(withSum(v, w.message(pattern(size), nil), size, false))
				if a := await(t, n.arrived, "arrival"); lnd.StatusOf(a.err) != lnd.StatusRemoteError {
					t.Errorf("the bad one arrived with %v, want a remote error", a.err)
				}
				w.ends()
				if sums, others := n.counter("checksum_errors_total"), n.counter("protocol_errors_total"); sums != 1 || others != 0 {
					t.Errorf("%d checksum errors, %d protocol errors; want 1 and 0", sums, others)
				}
			})
		}
	}
}

// socklnd 10.2 (1)
func TestABadChecksumIsNotAcknowledged(t *testing.T) {
	n := start(t, nil)
	p := newPuppet(n)
	_, _, w := p.callUs()
	w.send(withSum(protocol.V3, w.message(pattern(100), func(f *protocol.Frame, _ *lnet.Header) { f.Request = 5 }), 100, false))
	w.ends()
}

// socklnd 9 (4), 9 (6)
func TestABadChecksumOfANoop(t *testing.T) {
	for v := protocol.V2; v <= protocol.V4; v++ {
		n := start(t, nil)
		p := newPuppet(n)
		p.version = v
		w := p.connect(protocol.Control)
		f := protocol.Frame{Type: protocol.FrameNoop}
		w.send(withSum(v, f.Append(nil, binary.LittleEndian), 0, true))
		w.put(1)
		n.arrival()
		w.send(withSum(v, f.Append(nil, binary.LittleEndian), 0, false))
		w.ends()
		if got := n.counter("checksum_errors_total"); got != 1 {
			t.Errorf("%s: %d checksum errors", v, got)
		}
	}
}
