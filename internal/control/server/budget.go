package server

import (
	"context"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/lnetd/lnetd/internal/control/api"
)

const (
	// documentsBudget bounds the memory of all bodies with documents that are being read or
	// wait for their turn: one of the longest, or ten of a large site.
	documentsBudget = documentCopies * (documentBodyMax + 1<<20)
	// documentCopies is how many bytes a byte of a body takes: as it grows, it is copied, and
	// then there is the text.
	documentCopies = 3
	// budgetPatience bounds the wait for room.
	budgetPatience = api.ReplyPatience - 5*time.Second
)

// budget is memory that requests share. Requests get it in the order in which they ask, so
// that a large one gets its turn among small ones. Each asks once, and so none waits for
// another that waits.
type budget struct {
	mu      sync.Mutex // guards what follows
	free    int64
	waiting []*claim // in order
}

// claim is a request that waits for room.
type claim struct {
	size    int64
	granted chan struct{}
}

func newBudget(size int64) *budget { return &budget{free: size} }

// acquire takes size bytes, which must not exceed the budget, or returns ctx's error if they
// are not free before ctx is done.
func (b *budget) acquire(ctx context.Context, size int64) error {
	b.mu.Lock()
	c := &claim{size, make(chan struct{})}
	b.waiting = append(b.waiting, c)
	b.grant()
	b.mu.Unlock()
	select {
	case <-c.granted:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	k := slices.Index(b.waiting, c)
	if k < 0 { // granted meanwhile
		return nil
	}
	b.waiting = slices.Delete(b.waiting, k, k+1)
	b.grant() // it may have been in the way of smaller ones
	return context.Cause(ctx)
}

// release gives size bytes back.
func (b *budget) release(size int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free += size
	b.grant()
}

// grant serves those that wait, in order. b.mu is held.
func (b *budget) grant() {
	for len(b.waiting) > 0 && b.waiting[0].size <= b.free {
		b.free -= b.waiting[0].size
		close(b.waiting[0].granted)
		b.waiting = b.waiting[1:]
	}
}

// documentCharge is the memory that a body of a size takes.
func documentCharge(size int64) int64 { return documentCopies * (size + 1<<10) }

// budgeted is do for bodies with documents: it begins to read when there is room for the
// body, which it holds until do has ended.
func (h *handlers) budgeted(do handler) handler {
	return func(w http.ResponseWriter, r *http.Request) (any, *api.Fault) {
		size := int64(documentBodyMax)
		if r.ContentLength >= 0 {
			size = min(r.ContentLength, documentBodyMax)
		}
		size = documentCharge(size)
		ctx, cancel := context.WithTimeout(r.Context(), budgetPatience)
		defer cancel()
		if err := h.documents.acquire(ctx, size); err != nil {
			return nil, busy("other documents take all the memory that there is for them", err)
		}
		defer h.documents.release(size)
		// The time for the request begins only now.
		rc := http.NewResponseController(w)
		body := &steadyBody{ReadCloser: r.Body, extend: func() error { return rc.SetReadDeadline(time.Now().Add(bodyPatience)) }}
		if body.extend() != nil || rc.SetWriteDeadline(time.Now().Add(api.DocumentPatience)) != nil {
			h.logger().Debug("the deadlines of a document cannot be set")
		}
		r.Body = body
		return do(w, r)
	}
}

// steadyBody is a body whose time to be read is extended as it comes: a large document on a busy machine takes
// long, and a client that sends slowly must not hold the memory for it.
type steadyBody struct {
	io.ReadCloser
	extend func() error
	come   int // bytes since it was extended
}

func (b *steadyBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.come += n; b.come >= bodyProgress {
		b.come = 0
		_ = b.extend() // otherwise the old deadline holds
	}
	return n, err
}
