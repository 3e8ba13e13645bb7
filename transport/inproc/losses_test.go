package inproc

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/transport"
)

// Losses and how they are reported, as docs/transport.md describes: a sender only gets the result that the
// data has left, and a side that waits for data gets an error when LNet gives up waiting.
//
// transport-tests G (60)-(61)
// transport 6.10
func TestLosses(t *testing.T) {
	tests := []struct {
		name  string
		queue transport.QueueType
		to    string        // of messages; bulk is for a cancelled buffer
		want  error         // nil: success
		after time.Duration // minimum duration
	}{
		{"a message to no TM", transport.MsgSend, "10.0.0.2@tcp:12345:30:77", nil, 0},
		{"a message to a TM without a buffer", transport.MsgSend, "10.0.0.2@tcp:12345:30:1", nil, 0},
		{"a message to no node", transport.MsgSend, "10.0.0.9@tcp:12345:30:1", syscall.EHOSTUNREACH, 0},
		{"a message to a net without a route", transport.MsgSend, "10.0.0.9@tcp7:12345:30:1", syscall.EHOSTUNREACH, 0},
		{"filling", transport.ActiveBulkSend, "", nil, 0},
		{"fetching", transport.ActiveBulkRecv, "", syscall.ETIMEDOUT, 150 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := simulated(t, simConfig, static(), "10.0.0.1", "10.0.0.2")
				here, there := openTM(t, nodes[0]), openTM(t, nodes[1])
				began := time.Now()
				switch b := here.buffer; tt.queue {
				case transport.MsgSend:
					to, err := here.EndPoint(tt.to)
					if err != nil {
						t.Fatal(err)
					}
					defer to.Put()
					b.EndPoint = to
				case transport.ActiveBulkSend:
					b.Descriptor = there.announceAndCancel(t, transport.PassiveBulkRecv)
				case transport.ActiveBulkRecv:
					b.Descriptor = there.announceAndCancel(t, transport.PassiveBulkSend)
				}
				err := here.outcome(t, tt.queue)
				if !errors.Is(err, tt.want) {
					t.Errorf("error is %v, not %v", err, tt.want)
				}
				if took := time.Since(began); took < tt.after {
					t.Errorf("it took %v, not %v", took, tt.after)
				}
			})
		})
	}
}

// loneTM is a TM with one buffer, which reports its final event.
type loneTM struct {
	*transport.TransferMachine
	buffer *transport.Buffer
	ended  chan error
}

// openTM returns TM 1 of portal 30 of a node, which ends with the test.
func openTM(t *testing.T, n *node.Node) *loneTM {
	t.Helper()
	ctx := context.Background()
	d, err := transport.NewDomain(ctx, New(n))
	if err != nil {
		t.Fatal(err)
	}
	b, err := d.Buffer(ctx, 4096)
	if err != nil {
		t.Fatal(err)
	}
	tm, err := d.Open(ctx, at(nidOf(n), 30, 1).String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	l := &loneTM{tm, b, make(chan error, 1)}
	b.Length, b.Callbacks = 100, &transport.Callbacks{}
	for q := range b.Callbacks {
		b.Callbacks[q] = func(e *transport.BufferEvent) { l.ended <- e.Err }
	}
	t.Cleanup(func() {
		if err := errors.Join(tm.Shutdown(ctx), d.Free(b), d.Close()); err != nil {
			t.Error(err)
		}
	})
	return l
}

// outcome returns the result of an operation on the buffer.
func (l *loneTM) outcome(t *testing.T, q transport.QueueType) error {
	t.Helper()
	l.buffer.Queue = q
	if err := l.Add(l.buffer); err != nil {
		return err
	}
	return <-l.ended
}

// announceAndCancel returns the descriptor of the buffer, which is then cancelled.
func (l *loneTM) announceAndCancel(t *testing.T, q transport.QueueType) transport.Descriptor {
	t.Helper()
	l.buffer.Queue = q
	if err := l.Add(l.buffer); err != nil {
		t.Fatal(err)
	}
	l.Cancel(l.buffer)
	if err := <-l.ended; !errors.Is(err, syscall.ECANCELED) {
		t.Fatalf("error is %v, not ECANCELED", err)
	}
	return l.buffer.Descriptor
}
