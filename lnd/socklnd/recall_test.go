package socklnd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
)

// narrow is a stream that accepts room bytes.
type narrow struct {
	Stream
	mu      sync.Mutex
	changed sync.Cond
	room    int
	late    bool // the write deadline has passed
	wrote   []byte
}

func newNarrow(room int) *narrow {
	s := &narrow{room: room}
	s.changed.L = &s.mu
	return s
}

func (s *narrow) LocalAddr() netip.AddrPort  { return netip.AddrPort{} }
func (s *narrow) RemoteAddr() netip.AddrPort { return netip.AddrPort{} }

func (s *narrow) TryWrite(bufs [][]byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.late {
		return 0, os.ErrDeadlineExceeded
	}
	for _, b := range bufs {
		k := min(len(b), s.room-n)
		s.wrote = append(s.wrote, b[:k]...)
		n += k
	}
	s.room -= n
	return n, nil
}

func (s *narrow) AwaitWritable() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.room == 0 && !s.late {
		s.changed.Wait()
	}
	if s.late {
		return os.ErrDeadlineExceeded
	}
	return nil
}

func (s *narrow) SetWriteDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = !t.IsZero()
	s.changed.Broadcast()
	return nil
}

func (s *narrow) widen() {
	s.mu.Lock()
	s.room = 1 << 30
	s.changed.Broadcast()
	s.mu.Unlock()
}

// endings records how messages ended.
type endings map[*lnd.Tx]error

func (e endings) Sent(m *lnd.Tx, err error) { e[m] = err }

// batchOf returns a connection on which the messages and some cookies are queued.
func batchOf(s Stream, cookies int, ms ...*lnd.Tx) *conn {
	c := DefaultConfig()
	i := &Interface{driver: &Driver{config: c}}
	i.Init(peering.Setup[*peer]{Place: &peering.Place{Log: boundedlog.New(nil)}})
	p := &peer{i: i}
	p.set.Store(emptySet)
	o := newConn(p, s, protocol.BulkOut, protocol.V3, binary.LittleEndian)
	for k := range cookies {
		o.acks.Add(uint64(100 + 7*k))
	}
	for _, m := range ms {
		o.queue(m)
	}
	return o
}

// TestRecallFromABatch: given a batch of which any number of bytes has been written, when messages
// are recalled, then those that were not started return. Once there is room, the stream has the
// bytes that it would have without them, with every cookie.
func TestRecallFromABatch(t *testing.T) {
	const messages, payload = 6, 50
	for _, cookies := range []int{0, 1, 3} {
		for room := 0; room < messages*(payload+protocol.V3.Overhead())+cookies*protocol.FrameSize; room += 13 {
			t.Run(fmt.Sprint(cookies, "cookies/", room, "bytes"), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ended := endings{}
					var ms []*lnd.Tx
					for k := range messages {
						m := &lnd.Tx{Done: ended, Payload: memory.Of(make([]byte, payload))}
						m.Header = lnet.Header{Type: lnet.MsgPut, PayloadLength: payload, HdrData: uint64(k)}
						ms = append(ms, m)
					}
					s := newNarrow(room)
					c := batchOf(s, cookies, ms...)
					c.flushQueued()
					synctest.Wait()
					// The last message stays. The cookie that the first one was to carry is still
					// sent.
					back := c.recall(func(m *lnd.Tx) bool { return m != ms[messages-1] && m.Header.HdrData%3 != 1 })
					c.peer.i.PutRecalled(back)
					c.peer.i.Out.Run()
					synctest.Wait()
					s.widen()
					synctest.Wait()

					var left []*lnd.Tx
					begun := room - cookies*protocol.FrameSize
					for k, m := range ms {
						err, done := ended[m]
						recalled := errors.Is(err, lnd.ErrRecalled)
						mayCome := k < messages-1 && k%3 != 1 && k*(payload+protocol.V3.Overhead()) >= begun+protocol.FrameSize
						if !done || err != nil && !recalled || mayCome && !recalled {
							t.Errorf("message %d: %t, %v", k, done, err)
						}
						if !recalled {
							left = append(left, m)
						}
					}
					if n := c.queuedBytes.Load(); n != 0 {
						t.Errorf("%d bytes count as queued", n)
					}
					all := newNarrow(1 << 30)
					for _, m := range left {
						m.Done = endings{}
					}
					batchOf(all, cookies, left...).flushQueued()
					if !slices.Equal(all.wrote, s.wrote) {
						t.Errorf("(-want +got)\n%s", cmp.Diff(all.wrote, s.wrote))
					}
				})
			})
		}
	}
}

// TestRecallFromADeadConnection checks that messages of a closed connection fail, and cannot be
// recalled.
func TestRecallFromADeadConnection(t *testing.T) {
	c := batchOf(newNarrow(0), 0, &lnd.Tx{Done: endings{}})
	if left := c.markDead(net.ErrClosed); len(left) != 1 {
		t.Fatalf("%d messages were queued", len(left))
	}
	if back := c.recall(func(*lnd.Tx) bool { return true }); back != nil {
		t.Errorf("%d came back", len(back))
	}
}

// peerOf returns a peer with the given connections.
func peerOf(cs ...*conn) *peer {
	p := cs[0].peer
	p.conns = cs
	for _, c := range cs {
		c.peer = p
	}
	p.publish()
	return p
}

// TestRecallWhileConnectionsDie checks that all connections may close while messages are recalled
// from one of them.
func TestRecallWhileConnectionsDie(t *testing.T) {
	ended := endings{}
	one, two := batchOf(newNarrow(0), 0, &lnd.Tx{Done: ended}), batchOf(newNarrow(0), 0)
	p := peerOf(one, two)
	back := p.Recall(func(*lnd.Tx) bool {
		p.Lock()
		p.detach(func(*conn) bool { return true })
		p.Unlock()
		return true
	})
	if len(back)+len(ended) != 1 {
		t.Errorf("%d messages returned, %d ended, want 1", len(back), len(ended))
	}
}

// TestRecallLeavesReservedConnectionsAlone checks that nothing is recalled from a reserved
// connection. It belongs to the goroutine that is moving messages to it.
func TestRecallLeavesReservedConnectionsAlone(t *testing.T) {
	ended := endings{}
	c := batchOf(newNarrow(0), 0, &lnd.Tx{Done: ended})
	c.reserved = true
	if back := peerOf(c).Recall(func(*lnd.Tx) bool { return true }); len(back)+len(ended) != 0 {
		t.Error("a message was taken from it")
	}
}
