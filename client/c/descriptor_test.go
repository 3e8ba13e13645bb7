package c

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/tmpeer"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/mem"
)

// Whether a descriptor is valid or damaged, lnetd_move and TransferMachine.Add return the same error for it.
//
// transport 6.6 (1)-(4)
func TestDescriptors(t *testing.T) {
	const size = 4096
	mover := newMover(t, size)
	path := filepath.Join(t.TempDir(), "descriptors")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	results := map[syscall.Errno]int{}
	random := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		d := randomDescriptor(random, size)
		for direction, queue := range []transport.QueueType{transport.ActiveBulkRecv, transport.ActiveBulkSend} {
			length := random.IntN(3 * size) // may be 0 or too long
			errno := mover.move(queue, length, d)
			results[errno]++
			if _, err := fmt.Fprintf(f, "%d %d %d %x\n", direction, length, -int(errno), []byte(d)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for _, errno := range []syscall.Errno{0, syscall.EINVAL, syscall.EPERM, syscall.EFBIG} {
		if results[errno] < 50 {
			t.Errorf("only %d descriptors with result %d", results[errno], errno)
		}
	}
	each(t, func(t *testing.T, v *variant) {
		_, socket := tmpeer.Serve(t, mem.New(mem.Config{Strict: true}).Host(home))
		v.run(t, "testdata/descriptors.c", socket, path)
	})
}

// randomDescriptor returns a descriptor with up to two changed words, mostly with a checksum that matches
// again. size is that of the buffer that is to move its data.
func randomDescriptor(random *rand.Rand, size int) transport.Descriptor {
	nids := []lnet.NID{home, away, largeHome, largeAway}
	p := transport.Passive{
		Address:   transport.Address{NID: nids[random.IntN(len(nids))], PID: lnet.PIDLustre, Portal: 34, TMID: 77},
		MatchBits: transport.MakeMatchBits(77, 1+random.Uint64N(1000)),
		Queue:     []transport.QueueType{transport.PassiveBulkRecv, transport.PassiveBulkSend}[random.IntN(2)],
		Size:      1 + random.IntN(2*size),
	}
	d := p.AppendDescriptor(nil)
	for range random.IntN(3) {
		at := 4 * random.IntN(len(d)/4)
		values := []uint32{0, 1, 2, 3, 64, 12346, 1 << 20, random.Uint32()}
		binary.LittleEndian.PutUint32(d[at:], values[random.IntN(len(values))])
	}
	if random.IntN(8) > 0 {
		seal(d)
	}
	if random.IntN(50) == 0 {
		d = d[:random.IntN(len(d))]
	}
	if len(d) == 0 {
		return transport.Descriptor{0} // the program reads no empty word
	}
	return d
}

// seal computes the checksum of d, the exclusive-or of its other words.
func seal(d transport.Descriptor) {
	var sum uint64
	last := len(d) - 8
	for at := 0; at < last; at += 8 {
		sum ^= binary.LittleEndian.Uint64(d[at:])
	}
	binary.LittleEndian.PutUint64(d[last:], sum)
}

// mover is a transfer machine in Go with one buffer.
type mover struct {
	tm     *transport.TransferMachine
	buffer *transport.Buffer
	ended  chan struct{}
}

func newMover(t *testing.T, size int) *mover {
	t.Helper()
	domain, err := transport.NewDomain(t.Context(), mem.New(mem.Config{Strict: true}).Host(home))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = domain.Close() })
	m := &mover{ended: make(chan struct{}, 1)}
	if m.tm, err = domain.Open(t.Context(), home.String()+":12345:34:1", nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.tm.Close() })
	if m.buffer, err = domain.Buffer(t.Context(), size); err != nil {
		t.Fatal(err)
	}
	ended := func(*transport.BufferEvent) { m.ended <- struct{}{} }
	m.buffer.Callbacks = &transport.Callbacks{transport.ActiveBulkRecv: ended, transport.ActiveBulkSend: ended}
	return m
}

// move returns 0 if the transfer machine began to move data, which then fails, since no other TM exists.
func (m *mover) move(queue transport.QueueType, length int, d transport.Descriptor) syscall.Errno {
	m.buffer.Queue, m.buffer.Length, m.buffer.Descriptor = queue, length, d
	err := m.tm.Add(m.buffer)
	if err == nil {
		<-m.ended
		return 0
	}
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		panic(err)
	}
	return errno
}
