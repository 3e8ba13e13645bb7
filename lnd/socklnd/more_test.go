package socklnd

import (
	"context"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/memory"
)

// countsWrites is a network that counts the writes of its outbound streams.
type countsWrites struct {
	Network
	writes atomic.Int64
}

func (c *countsWrites) Dial(ctx context.Context, local, remote netip.AddrPort) (Stream, error) {
	s, err := c.Network.Dial(ctx, local, remote)
	if err != nil {
		return nil, err
	}
	return countingStream{s, c}, nil
}

type countingStream struct {
	Stream
	c *countsWrites
}

func (s countingStream) TryWrite(bufs [][]byte) (int, error) {
	s.c.writes.Add(1)
	return s.Stream.TryWrite(bufs)
}

// TestMessagesThatMoreFollow checks that messages with More set are written together, even if the
// message after the last one never comes.
func TestMessagesThatMoreFollow(t *testing.T) {
	c := &countsWrites{Network: HostNetwork()}
	a, b := start(t, func(x *Config) { x.Network = c }), start(t, nil)
	b.onArrival(func(x *arrival) error {
		x.drop()
		return nil
	})
	id := b.id()
	await(t, a.put(id, 10).sent, "first message") // now there are connections
	const batches, size = 100, 16
	payload := memory.Of(pattern(10))
	for _, alone := range []bool{false, true} {
		before := c.writes.Load()
		for range batches {
			done := &sending{t: t, sent: make(chan error, 2*size)}
			var txs [size]lnd.Tx
			for k := range txs {
				txs[k] = lnd.Tx{
					Header: putHeader(a.NID(), b.NID(), 10), To: id, Payload: payload, Done: done,
					More: alone || k < size-1,
				}
				a.Send(&txs[k])
			}
			for range txs {
				if err := await(t, done.sent, "end of a message"); err != nil {
					t.Fatal(err)
				}
			}
		}
		if n := c.writes.Load() - before; n > batches*size/2 {
			t.Errorf("last one is alone %t: %d writes for %d batches of %d messages", alone, n, batches, size)
		}
	}
}

// TestMoreThatNeverComes checks that a message with More set is completed when its interface
// closes, even if no other message follows.
func TestMoreThatNeverComes(t *testing.T) {
	a, b := start(t, nil), start(t, nil)
	id := b.id()
	await(t, a.put(id, 10).sent, "first message")
	await(t, b.arrived, "first arrival")
	done := &sending{t: t, sent: make(chan error, 2)}
	tx := lnd.Tx{Header: putHeader(a.NID(), b.NID(), 10), To: id, Payload: memory.Of(pattern(10)), Done: done, More: true}
	a.Send(&tx)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := a.Close(ctx); err != nil {
		t.Error(err)
	}
	await(t, done.sent, "end of the message") // either it was sent, or closing the interface ended it
}
