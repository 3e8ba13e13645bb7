package socklnd

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
)

// TestCorkedMessages checks how many messages and bytes are held back while a reader processes a batch: up to
// maxCorked messages, or half of what has arrived in the batch before, but at least minCorked, if the reader has
// waited for the batch and the one before was long. None are held back when no reader processes a batch.
func TestCorkedMessages(t *testing.T) {
	for _, x := range []struct {
		waited   bool
		took     time.Duration
		arrivals int32
		want     int
	}{
		{false, longBatch, 0, maxCorked},
		{false, longBatch, 8, maxCorked},
		{true, longBatch - 1, 8, maxCorked},
		{true, longBatch, 0, minCorked},
		{true, longBatch, 8, minCorked},
		{true, longBatch, 20, 10},
		{true, longBatch, 1000, maxCorked},
	} {
		c := &conn{peer: &peer{}, waited: x.waited, took: x.took, arrivals: x.arrivals}
		k := &c.peer.corks
		// hold queues n messages of the given number of bytes in total, and reports whether they are held back.
		hold := func(n, bytes int) bool {
			out := &conn{peer: c.peer, version: protocol.V3}
			for range n {
				out.queue(&lnd.Tx{})
			}
			out.queuedBytes.Store(int64(bytes))
			defer k.dirty.Store(nil)
			return k.hold(out)
		}
		if hold(1, 100) {
			t.Error("a message is held back without a batch")
		}
		c.cork()
		for n := range maxCorked + 1 {
			if got := hold(n, 100); got != (n < x.want) {
				t.Errorf("%+v: %d messages held back: %t", x, n, got)
			}
		}
		if !hold(1, maxCorkedBytes-1) || hold(1, maxCorkedBytes) {
			t.Error("the limit in bytes is wrong")
		}
		if c.arrivals != 0 {
			t.Errorf("%d arrivals at the beginning of a batch", c.arrivals)
		}
		c.uncork()
		if hold(1, 100) {
			t.Error("a message is held back after the batch")
		}
	}
}

// TestWaited checks that a stream reports whether its last Read had to wait.
func TestWaited(t *testing.T) {
	r := newRinging(t)
	waited := r.near.(Pollable).Waited
	deadline := func(at time.Time) {
		t.Helper()
		if err := r.near.SetReadDeadline(at); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		// A Read whose deadline has passed before it begins does not wait, so the test gives it more and more time.
		for d := time.Millisecond; !waited(); d *= 2 {
			deadline(time.Now().Add(d))
			if _, err := r.near.Read([][]byte{make([]byte, 1)}); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("a Read without bytes: %v", err)
			}
		}
		deadline(time.Time{})
		r.say("a")
		r.hear("a")
		if waited() {
			t.Error("a Read with bytes has waited")
		}
	}
}
