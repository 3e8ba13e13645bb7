package mem_test

import (
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/mem"
)

// If memory of either side is gone, the active side gets EFAULT. The waiting operation stays queued and
// still works.
//
// transport 9.9 (8)
func TestLostMemory(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	page := os.Getpagesize()
	b, err := unix.Mmap(int(f.Fd()), 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(b) }()
	for _, strict := range []bool{false, true} {
		p := newPair(t, mem.Config{Strict: strict})
		lost := func(k int) *memory {
			c, err := p.d[k].Register(t.Context(), [][]byte{b}, "lost")
			if err != nil {
				t.Fatal(err)
			}
			return &memory{core: c}
		}
		in, sound, to := p.buffer(0, "in", 100), p.buffer(1, "sound", 100), p.tm[0].Address()
		of := func(token string, seq uint32) transport.Completion {
			return transport.Completion{Token: token, Sequence: seq, Final: true, Err: syscall.EFAULT}
		}
		p.receive(0, in, 100, 1)    // 1
		p.send(1, lost(1), 100, to) // 2
		p.expect(1, of("lost", 2))  // nothing was received
		p.send(1, sound, 100, to)   // 3
		p.expect(0, transport.Completion{Token: "in", Sequence: 1, Length: 100, Final: true, Sender: p.tm[1].Address()})
		p.expect(1, transport.Completion{Token: "sound", Sequence: 3, Length: 100, Final: true})

		p.submit(0, transport.Op{Queue: transport.PassiveBulkSend, Buffer: lost(0).core, Length: 100, MatchBits: 9}) // 4
		p.submit(1, transport.Op{Queue: transport.ActiveBulkRecv, Buffer: sound.core, Length: 100, MatchBits: 9, Peer: to})
		p.expect(1, of("sound", 5))
		p.expect(0)
	}
}
