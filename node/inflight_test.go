package node_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// flying returns the error of a wait that ended before the driver had finished.
func flying(t *testing.T, err error, why error) *node.InFlightError {
	t.Helper()
	var f *node.InFlightError
	if !errors.As(err, &f) || !errors.Is(err, why) {
		t.Fatalf("%v; want an InFlightError of %v", err, why)
	}
	return f
}

// checkDone checks whether memory is free, when all goroutines are blocked.
func checkDone(t *testing.T, step string, f *node.InFlightError, want bool) {
	t.Helper()
	synctest.Wait()
	select {
	case <-f.Done():
		if !want {
			t.Errorf("%s: the memory is said to be free", step)
		}
	default:
		if want {
			t.Errorf("%s: the memory is not free", step)
		}
	}
}

// Given a PUT that the driver holds, when the context ends, then PutWait returns, and its
// error signals when the memory is free: when the driver has read it.
func TestACancelledPutSaysWhenItsMemoryIsFree(t *testing.T) {
	for name, o := range map[string]node.PutOptions{"put": {Portal: 1}, "with ack": {Portal: 1, Ack: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fabric, n, _, to, memory := waiting(t)
				fabric.hold(true)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				b := []byte("abc")
				_, err := n.PutWait(ctx, b, to, o)
				f := flying(t, err, context.DeadlineExceeded)
				checkDone(t, "held by the driver", f, false)
				fabric.hold(false)
				checkDone(t, "sent", f, true)
				if string(memory) != "abc34567" {
					t.Errorf("sent %q", memory)
				}
			})
		})
	}
}

// Given a PUT that waits for its ACK, when the context ends after the PUT was sent, then
// the memory is free already, and the error is the context's.
func TestAPutThatHasLeftIsNotInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, n, _, to, _ := waiting(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		const nobody = 9 // portal
		_, err := n.PutWait(ctx, []byte("x"), to, node.PutOptions{Portal: nobody, Ack: true})
		if f := (*node.InFlightError)(nil); errors.As(err, &f) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want DeadlineExceeded alone", err)
		}
	})
}

// Given a context that has ended before the call, then nothing is in flight.
func TestAWaitThatNeverBeganIsNotInFlight(t *testing.T) {
	fabric, n, _, to, _ := waiting(t)
	seen := watch(fabric)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errAny)
	if _, err := n.PutWait(ctx, []byte("x"), to, node.PutOptions{Portal: 1}); err != errAny || len(*seen) != 0 {
		t.Errorf("%v, %d sent; want the context's cause", err, len(*seen))
	}
}

// Given a GET, when its context has ended and the REPLY arrives afterwards, then the
// memory is free at once or, if the REPLY was being received, when it has been received.
// A REPLY that arrives later is dropped.
//
// lnet-core 5.5 (1)
func TestALateReplyDoesNotTouchFreeMemory(t *testing.T) {
	for name, receiving := range map[string]bool{"receiving": true, "not begun": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPair(t)
				seen := watch(p.fabric)
				b := []byte("....")
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				got := outcome(func() error {
					_, err := p.a.GetWait(ctx, b, p.idb, node.GetOptions{Portal: 9}) // no entry matches
					return err
				})
				synctest.Wait()
				reply := &frame{fabric: p.fabric, to: p.pa, payload: []byte("data"), inCall: true}
				reply.rx = lnd.Rx{Driver: reply, From: p.idb, Header: lnet.Header{
					Type: lnet.MsgReply, Src: p.idb.NID, SrcPID: p.idb.PID, Dest: p.ida.NID, Handle: (*seen)[0].handle, PayloadLength: 4,
				}}
				arrive := func() {
					if err := p.pa.upper.Arrived(&reply.rx); err != nil {
						t.Fatal(err)
					}
				}
				if receiving {
					arrive()
				}
				cancel()
				err := <-got
				if !receiving {
					if f := (*node.InFlightError)(nil); errors.As(err, &f) || !errors.Is(err, context.Canceled) {
						t.Fatalf("%v, want Canceled alone", err)
					}
					if arrive(); !reply.placed || reply.placement.Done != nil || p.a.Admin().Drops()[node.DropNoMD] != 1 {
						t.Errorf("a late REPLY has the placement %+v", reply.placement)
					}
					return
				}
				f := flying(t, err, context.Canceled)
				checkDone(t, "being received", f, false)
				reply.finish()
				checkDone(t, "received", f, true)
				if string(b) != "data" {
					t.Errorf("%q", b)
				}
			})
		})
	}
}

// Given waits that are ended by Close, then their memory is free at the latest when Close
// has returned, whether a driver had the message, a handler was about to be called, or no
// event was to come any more.
//
// lnet-core 12.6
func TestCloseFreesTheMemoryOfWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fabric, n, _, to, _ := waiting(t)
		const nobody = 9 // portal
		answered := outcome(func() error {
			_, err := n.GetWait(t.Context(), make([]byte, 1), to, node.GetOptions{Portal: nobody})
			return err
		})
		synctest.Wait()
		fabric.hold(true)
		held := outcome(func() error {
			_, err := n.PutWait(t.Context(), make([]byte, 1), to, node.PutOptions{Portal: 1})
			return err
		})
		ctx, cancel := context.WithCancel(t.Context())
		left := outcome(func() error {
			_, err := n.PutWait(ctx, make([]byte, 1), to, node.PutOptions{Portal: 1})
			return err
		})
		synctest.Wait()
		cancel()
		f := flying(t, <-left, context.Canceled)
		checkDone(t, "held", f, false)
		if err := n.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		checkDone(t, "closed", f, true)
		for name, c := range map[string]<-chan error{"held": held, "answered": answered} {
			err := <-c
			if !errors.Is(err, node.ErrClosed) && !errors.Is(err, lnd.ErrClosed) && !errors.Is(err, node.ErrCanceled) {
				t.Errorf("%s: %v", name, err)
			}
			if f := (*node.InFlightError)(nil); errors.As(err, &f) {
				checkDone(t, name, f, true)
			}
		}
	})
}

// slowCause is a context whose cause becomes available when a function has returned.
type slowCause struct {
	context.Context
	before func()
}

func (c *slowCause) Value(key any) any {
	c.before()
	return c.Context.Value(key)
}

// Given a wait that ends after the node has closed, so that no event reports the end of
// its MD, then its memory is free.
func TestAWaitThatIsLeftAfterCloseIsNotInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, n, _, to, _ := waiting(t)
		ctx, cancel := context.WithCancel(t.Context())
		closed := make(chan struct{})
		got := outcome(func() error {
			const nobody = 9 // portal
			_, err := n.GetWait(&slowCause{ctx, func() { <-closed }}, make([]byte, 1), to, node.GetOptions{Portal: nobody})
			return err
		})
		synctest.Wait()
		cancel()
		synctest.Wait()
		if err := n.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		close(closed)
		err := <-got
		if f := (*node.InFlightError)(nil); errors.As(err, &f) || !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want Canceled alone", err)
		}
	})
}

// Given an MD with a handler, when it is unlinked while the driver has the message, then
// its last event signals that the memory is free.
func TestTheLastEventFreesTheMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fabric, n, _, to, _ := waiting(t)
		fabric.hold(true)
		var r recorder
		h := bind(t, n, portals.MD{Bytes: []byte("abc"), Threshold: 2, Handler: &r})
		put(t, n, h, to, node.PutOptions{Portal: 1, Ack: true})
		if err := n.Unlink(h); err != nil {
			t.Fatal(err)
		}
		if e := r.take(); len(e) != 0 {
			t.Errorf("while the driver has it: %+v", e)
		}
		fabric.hold(false)
		if e := r.take(); len(e) != 1 || !e[0].Unlinked || !errors.Is(e[0].Err, node.ErrTimedOut) {
			t.Errorf("%+v, want one event, the last", e)
		}
	})
}
