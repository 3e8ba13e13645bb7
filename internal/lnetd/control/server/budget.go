package server

import (
	"context"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

const (
	// documentsBudget is the maximum memory for request bodies with documents that are being read
	// or wait for their turn. It suffices for one document of maximum size or ten of a large site.
	documentsBudget = documentCopies * (documentBodyMax + 1<<20)
	// documentCopies is the memory for each byte of a body: the buffer is copied as it grows, and
	// the decoded text is another copy.
	documentCopies = 3
	// budgetTimeout is the maximum wait for memory.
	budgetTimeout = api.ReplyPatience - replyMargin
)

// budget is a memory budget shared by requests. It serves requests in order of arrival, so small
// requests cannot starve a large one. Each request acquires memory only once, so requests cannot
// deadlock.
type budget struct {
	mu      sync.Mutex // guards what follows
	free    int64
	waiting []*claim // in order
}

// claim is a request that waits for memory.
type claim struct {
	size    int64
	granted chan struct{}
}

func newBudget(size int64) *budget { return &budget{free: size} }

// acquire reserves size bytes, which must not exceed the whole budget. It blocks until they are
// available, and returns ctx's cause if ctx is done first.
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
	if k < 0 { // already granted
		return nil
	}
	b.waiting = slices.Delete(b.waiting, k, k+1)
	b.grant() // the claim may have blocked smaller ones
	return context.Cause(ctx)
}

// release returns size bytes to the budget.
func (b *budget) release(size int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free += size
	b.grant()
}

// grant grants waiting claims in order. The caller holds b.mu.
func (b *budget) grant() {
	for len(b.waiting) > 0 && b.waiting[0].size <= b.free {
		b.free -= b.waiting[0].size
		close(b.waiting[0].granted)
		b.waiting = b.waiting[1:]
	}
}

// documentCharge returns the memory that a body of a size needs.
func documentCharge(size int64) int64 { return documentCopies * (size + 1<<10) }

// budgeted wraps do for bodies with documents. It starts to read the body when memory is available,
// and releases the memory after do.
func (h *handlers) budgeted(do handler) handler {
	return func(w http.ResponseWriter, r *http.Request) (any, *api.Fault) {
		size := int64(documentBodyMax)
		if r.ContentLength >= 0 {
			size = min(r.ContentLength, documentBodyMax)
		}
		size = documentCharge(size)
		ctx, cancel := context.WithTimeout(r.Context(), budgetTimeout)
		defer cancel()
		if err := h.documents.acquire(ctx, size); err != nil {
			return nil, busy("other documents use all memory for documents", err)
		}
		defer h.documents.release(size)
		// The timeouts of the request start only now.
		rc := http.NewResponseController(w)
		body := &progressBody{ReadCloser: r.Body, extend: func() error { return rc.SetReadDeadline(time.Now().Add(bodyTimeout)) }}
		if body.extend() != nil || rc.SetWriteDeadline(time.Now().Add(api.DocumentPatience)) != nil {
			h.logger().Debug("the timeouts of the request cannot be set")
		}
		r.Body = body
		return do(w, r)
	}
}

// progressBody is a body whose read deadline is extended as data arrives. A large document may take
// long on a busy machine, but a slow client must not hold the memory for it.
type progressBody struct {
	io.ReadCloser
	extend   func() error
	received int // since the last extension
}

func (b *progressBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.received += n; b.received >= bodyProgress {
		b.received = 0
		_ = b.extend() // on failure the old deadline stays
	}
	return n, err
}
