package remote

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/transport/remote/protocol"
)

// quota limits the number of buffers of lnetd. known returns the current number.
func (f *fake) quota(most int) (known func() int) {
	var mu sync.Mutex
	n := 0
	f.answers(func(h protocol.Header, _ protocol.Request) ([]byte, bool) {
		mu.Lock()
		defer mu.Unlock()
		switch h.Opcode {
		case protocol.OpBufDeregister:
			n--
		case protocol.OpBufRegister:
			if n == most {
				return protocol.AppendFailure(nil, h, syscall.EDQUOT), true
			}
			n++
		}
		return nil, false
	})
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

// kept creates n idle registrations of parts of memory.
func kept(t *testing.T, d *domain, memory []byte, n int) {
	t.Helper()
	var all []*buffer
	for k := range n {
		all = append(all, register(t, d, memory[k:k+1]))
	}
	ended(t, all...)
}

// Given a quota of buffers that is used up by idle registrations, when many goroutines register at the same
// time, then all succeed, and only as many registrations as needed are evicted.
//
// transport 9.3
func TestQuotaEvictsAtOnce(t *testing.T) {
	const most = 64
	f := newFake(t, Config{})
	d := f.open()
	memory, err := d.Alloc(t.Context(), 8192)
	if err != nil {
		t.Fatal(err)
	}
	known := f.quota(most)
	kept(t, d, memory, most)
	var all sync.WaitGroup
	for k := range most {
		all.Go(func() {
			if _, err := d.Register(t.Context(), [][]byte{memory[100+k : 110+k]}, k); err != nil {
				t.Error(err)
			}
		})
		if k == 0 {
			all.Wait()
			if n := known(); n != most-most/8+1 {
				t.Errorf("%d are known after one more", n)
			}
		}
	}
	all.Wait()
	if known() != most || d.idle.order.Len() != 0 {
		t.Errorf("%d are known, %d idle", known(), d.idle.order.Len())
	}
	if _, err := d.Register(t.Context(), [][]byte{memory[:3]}, 1); !errors.Is(err, syscall.EDQUOT) {
		t.Errorf("one more buffer than the quota: %v", err)
	}
}

// Given an lnetd that does not answer the requests of an eviction, when a context ends, then Register
// returns.
func TestEvictionEndsWithContext(t *testing.T) {
	f := newFake(t, Config{})
	d := f.open()
	memory, err := d.Alloc(t.Context(), 8192)
	if err != nil {
		t.Fatal(err)
	}
	kept(t, d, memory, 4)
	f.answers(func(h protocol.Header, _ protocol.Request) ([]byte, bool) {
		if h.Opcode == protocol.OpBufRegister {
			return protocol.AppendFailure(nil, h, syscall.EDQUOT), true
		}
		return nil, true
	})
	one := func(ctx context.Context) error {
		_, err := d.Register(ctx, [][]byte{memory[100:200]}, 1)
		return err
	}
	endFirst, first := begin(t, one)
	for f.count(protocol.OpBufDeregister) < 1 {
		time.Sleep(time.Microsecond)
	}
	endSecond, second := begin(t, one)
	endSecond()
	if err := <-second; !errors.Is(err, context.Canceled) {
		t.Errorf("one that waits for another: %v", err)
	}
	endFirst()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Given idle registrations that lnetd still uses, when it refuses to deregister them, then they stay, and
// are evicted later.
func TestRefusedEviction(t *testing.T) {
	f := newFake(t, Config{})
	d := f.open()
	memory, err := d.Alloc(t.Context(), 8192)
	if err != nil {
		t.Fatal(err)
	}
	kept(t, d, memory, 3)
	f.answers(func(h protocol.Header, _ protocol.Request) ([]byte, bool) {
		switch h.Opcode {
		case protocol.OpBufRegister:
			return protocol.AppendFailure(nil, h, syscall.EDQUOT), true
		case protocol.OpBufDeregister:
			return protocol.AppendFailure(nil, h, syscall.EBUSY), true
		}
		return nil, false
	})
	if _, err := d.Register(t.Context(), [][]byte{memory[100:200]}, 1); !errors.Is(err, syscall.EDQUOT) {
		t.Error(err)
	}
	if n := d.idle.order.Len(); n != 3 {
		t.Errorf("%d of 3 are idle", n)
	}
	f.answers(nil)
	if err := d.Free(memory); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if n := f.count(protocol.OpBufDeregister); n != 1+3 {
		t.Errorf("%d requests to forget", n)
	}
}
