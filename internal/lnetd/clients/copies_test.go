package clients

import (
	"bytes"
	"context"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/daemontest"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/inproc"
	"github.com/lnetd/lnetd/transport/remote/protocol"
	"github.com/lnetd/lnetd/transport/shm"
)

// far is a client of an lnetd whose node uses TCP.
type far struct {
	node   *node.Node
	peer   *peer
	tm     *ring
	memory []byte
	buffer protocol.BufRegisterReply
}

// bulkSize is the size of payloads.
const bulkSize = 1 << 20

func newFar(t *testing.T, address string, port int) *far {
	t.Helper()
	d, err := socklnd.New(socklnd.UnprivilegedConfig(port))
	if err != nil {
		t.Fatal(err)
	}
	f := &far{}
	if f.node, err = node.Start(t.Context(), node.Config{}, d, address+"@tcp"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.node.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	f.peer = newWorld(t, func(c *Config) { c.Core = inproc.New(f.node) }).join()
	if f.tm, err = f.peer.tryStartAt(f.node.NID(), 34, 7, 16); err != nil {
		t.Fatal(err)
	}
	area := f.peer.share(bulkSize)
	f.memory = area.memory.Bytes()
	var parts []protocol.Range
	for at := uint64(0); at < bulkSize; at += 4096 {
		parts = append(parts, protocol.Range{Area: area.id, Length: 4096, Offset: at})
	}
	f.buffer = f.peer.register(parts...)
	return f
}

// copied returns how many payload bytes, received over TCP, lnetd has copied.
func (f *far) copied(t *testing.T) uint64 {
	t.Helper()
	for _, c := range f.node.NIs()[1].Driver {
		if c.Name == "copied_bytes_total" {
			return c.Value
		}
	}
	t.Fatal("copies are not counted")
	return 0
}

// Bulk between clients on two hosts moves from the memory of one to the wire, and from there to the
// memory of the other, in both directions. Only the kernel copies it. Payload that arrives together with
// a header is copied, but no more than a page of it, and none if previous payloads were large, too.
//
// transport-tests P (125)
// transport 9.3
func TestPayloadIsNotCopied(t *testing.T) {
	port, err := daemontest.FreePort("127.0.0.1", "127.0.0.2")
	if err != nil {
		t.Fatal(err)
	}
	a, b := newFar(t, "127.0.0.1", port), newFar(t, "127.0.0.2", port)
	number := uint32(0)
	exchange := func(active, passive shm.Opcode, from *far) {
		t.Helper()
		number++
		for i := range from.memory {
			from.memory[i] = byte(int(number)*31 + i>>8)
		}
		bits := uint64(transport.MakeMatchBits(7, uint64(number)))
		b.tm.begin(of(shm.Submission{Opcode: passive, MatchBits: bits, Length: bulkSize}, b.buffer, number))
		a.tm.submit(of(to(shm.Submission{Opcode: active, MatchBits: bits, Length: bulkSize}, b.tm.at), a.buffer, number))
		for _, f := range []*far{a, b} {
			if c := f.tm.next(); c.Errno != 0 || !c.Final {
				t.Fatalf("%+v", c)
			}
		}
		if !bytes.Equal(a.memory, b.memory) {
			t.Fatal("other bytes have come")
		}
	}
	for range 15 {
		exchange(shm.OpActiveSend, shm.OpPassiveRecv, a)
		exchange(shm.OpActiveRecv, shm.OpPassiveSend, b)
	}
	if n := a.copied(t) + b.copied(t); n == 0 || n > uint64(number)*4096 {
		t.Errorf("%d bytes were copied of %d payloads", n, number)
	}
}
