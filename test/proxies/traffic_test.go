package proxies

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// Portals of stations: an inbox for PUTs, and memory for GETs.
const (
	inboxPortal  = 40
	memoryPortal = 41
)

// mix returns the word at a position of the content that belongs to a seed. No two contents have a word in common,
// nor has one content the same word twice, but for chance.
func mix(seed, position uint64) uint64 {
	x := seed*0x9e3779b97f4a7c15 + position
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// fill writes a content to b, which begins at the offset, a multiple of 8, of the content.
func fill(b []byte, seed uint64, offset int) {
	var w [8]byte
	for k := 0; k < len(b); k += 8 {
		binary.LittleEndian.PutUint64(w[:], mix(seed, uint64(offset+k)))
		copy(b[k:], w[:])
	}
}

// checkContent returns an error if b is not what fill writes.
func checkContent(b []byte, seed uint64, offset int) error {
	var w [8]byte
	for k := 0; k < len(b); k += 8 {
		binary.LittleEndian.PutUint64(w[:], mix(seed, uint64(offset+k)))
		if got := b[k:min(k+8, len(b))]; string(got) != string(w[:len(got)]) {
			return fmt.Errorf("byte %d of %d at offset %d is % x, want % x", k, len(b), offset, got, w[:len(got)])
		}
	}
	return nil
}

// station is a node that checks the content of what arrives, and has content for GETs.
type station struct {
	t    testing.TB
	node *node.Node
	id   lnet.ProcessID
	seed uint64 // of the content for GETs

	// puts and bytes count what has arrived in the inbox; spoilt counts payloads with other content than was sent.
	puts, spoilt atomic.Uint64
}

// newStation makes a node a station until the end of the test. seed differs from those of other stations.
func newStation(t testing.TB, n *node.Node, seed uint64) *station {
	t.Helper()
	s := &station{t: t, node: n, id: lnet.ProcessID{NID: n.NID(), PID: lnet.PIDLustre}, seed: seed}
	memory := make([]byte, lnet.MTU)
	fill(memory, seed, 0)
	_, err := n.Attach(portals.Entry{Portal: memoryPortal}, portals.MD{
		Bytes: memory, Threshold: portals.Unlimited, Options: portals.OpGet | portals.ManageRemote | portals.Truncate,
	})
	if err != nil {
		t.Fatal(err)
	}
	inbox, err := n.OpenInbox(node.InboxConfig{Portal: inboxPortal, Buffers: 16})
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for m, err := range inbox.Messages(context.Background()) {
			if err != nil {
				return
			}
			s.puts.Add(1)
			if err := checkContent(m.Data, m.HdrData, 0); err != nil {
				s.spoil("PUT from %s: %v", m.Source, err)
			}
		}
	}()
	t.Cleanup(func() {
		inbox.Close()
		<-read
	})
	return s
}

// spoil counts a payload with wrong content, and fails the test.
func (s *station) spoil(format string, args ...any) {
	s.spoilt.Add(1)
	s.t.Errorf(format, args...)
}

// put sends n bytes of a new content to another station and waits until it has them.
func (s *station) put(ctx context.Context, to *station, r *rand.Rand, n int) error {
	seed := r.Uint64()
	b := make([]byte, n)
	fill(b, seed, 0)
	got, err := s.node.PutWait(ctx, b, to.id, node.PutOptions{Portal: inboxPortal, HdrData: seed, Ack: true})
	if err == nil && got != n {
		s.spoil("PUT of %d bytes to %s: it accepted %d", n, to.id, got)
	}
	return err
}

// get fetches n bytes of another station's content and checks them.
func (s *station) get(ctx context.Context, from *station, r *rand.Rand, n int) error {
	offset := r.IntN((lnet.MTU-n)/8+1) * 8
	b := make([]byte, n)
	got, err := s.node.GetWait(ctx, b, from.id, node.GetOptions{Portal: memoryPortal, Offset: uint32(offset)})
	if err != nil {
		return err
	}
	if err := checkContent(b, from.seed, offset); got != n || err != nil {
		s.spoil("GET of %d bytes at %d from %s: %d bytes, %v", n, offset, from.id, got, err)
	}
	return nil
}

// talk is traffic between two stations.
type talk struct {
	// limit, if it is not 0, is the time limit of an operation.
	limit time.Duration
	// era ends with the next call of excuse.
	era atomic.Pointer[era]
	// done and failed count operations. last is the error of the last one that failed.
	done, failed atomic.Uint64
	last         atomic.Value
}

// era is a time in which failures count.
type era struct {
	context.Context
	end context.CancelFunc
}

// excuse ends the operations that have begun, and does not count their failures. It must be called before run.
func (x *talk) excuse() {
	ctx, cancel := context.WithCancel(context.Background())
	if last := x.era.Swap(&era{ctx, cancel}); last != nil {
		last.end()
	}
}

// run makes PUTs and GETs of random sizes, one after the other, until ctx is done.
func (x *talk) run(ctx context.Context, a, b *station, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 3))
	for ctx.Err() == nil {
		n := r.IntN(1 << r.IntN(21))
		from, to := a, b
		if r.IntN(2) == 0 {
			from, to = b, a
		}
		operation := from.put
		if r.IntN(2) == 0 {
			operation = from.get
		}
		era := x.era.Load()
		limited, cancel := context.WithTimeout(ctx, cmp.Or(x.limit, 2*patience))
		stop := context.AfterFunc(era, cancel)
		err := operation(limited, to, r, n)
		stop()
		cancel()
		switch {
		case err == nil:
			x.done.Add(1)
		case ctx.Err() == nil && era.Err() == nil:
			x.failed.Add(1)
			x.last.Store(err.Error())
		}
		if err != nil {
			rest(ctx, 10*time.Millisecond)
		}
	}
}
