package transport

import (
	"context"
	"syscall"
	"testing"
	"testing/synctest"
)

// If Low adds buffers, and waiting TMs take some of them, Low is called again only while too few are left. A
// call is nested in the previous one each time that the TMs have taken all new buffers. The pool grows by the
// number of missing buffers, rounded up to what Low adds in one call.
//
// transport 4 provision, 4 get
func TestLowThatMakesBuffers(t *testing.T) {
	for _, c := range []struct {
		name        string
		makes       int
		refused     int // number of buffers that the core refuses to register
		calls, size int // of a pool of 8 buffers, with TMs that need 10 and 5
	}{
		{"all that is missing", 16, 0, 1, 24},
		{"some at a time", 3, 0, 3, 17},
		{"one at a time", 1, 0, 8, 16},
		{"none", 1, 1, 1, 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			calls, depth := 0, 0
			low := func(p *Pool) {
				calls++
				if depth++; depth > 20 {
					t.Fatal("Low is called again and again")
				}
				if _, err := p.Provision(context.Background(), c.makes); (err != nil) != (c.refused > 0) {
					t.Errorf("provision: %v", err)
				}
				depth--
			}
			withTMs(t, nil, func(h *tmGroup) {
				other := h.attached(5).start()
				f := h.attached(10)
				f.budget = 0
				f.start()
				f.budget = -1
				h.pool.config.Low = low
				if c.refused > 0 {
					h.core.failRegister = func() error { return syscall.ENOMEM }
				}
				f.setLength(10)
				synctest.Wait()
				want := max(0, 7-(c.size-8))
				f.has(10-want, want, 10)
				other.has(5, 0, 0)
				if calls != c.calls || h.pool.Size() != c.size {
					t.Errorf("%d calls, %d buffers, want %d and %d", calls, h.pool.Size(), c.calls, c.size)
				}
				h.pool.config.Low = nil
			})
		})
	}
}
