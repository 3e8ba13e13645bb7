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
	// documentsBudget is the maximum memory in bytes for the bodies of all requests with documents that
	// are being read or processed. It suffices for one document of maximum size, or for ten documents
	// of a large site.
	documentsBudget = documentCopies * (documentBodyMax + 1<<20)
	// documentCopies is the number of bytes of memory for each byte of a body: the buffer is copied as
	// it grows, and the decoded text is another copy.
	documentCopies = 3
	// budgetTimeout is the maximum time that a request waits for memory in the budget.
	budgetTimeout = api.ReplyPatience - replyMargin
)

// budget is an amount of memory that requests share. Requests get memory in the order of their arrival, so
// a large request is not delayed by small ones that come later. Each request acquires memory only once, so
// requests cannot deadlock.
type budget struct {
	mu      sync.Mutex // guards the fields below
	free    int64      // bytes that no request has acquired
	waiting []*claim   // requests that wait, in the order of their arrival
}

// claim is a request that waits for memory.
type claim struct {
	size    int64
	granted chan struct{} // closed when the request has got the memory
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
	b.grant() // later claims may be smaller, and waited only for this one
	return context.Cause(ctx)
}

// release returns size bytes to the budget.
func (b *budget) release(size int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free += size
	b.grant()
}

// grant gives memory to waiting claims in order, until the first one for which the free memory does not
// suffice. The caller holds b.mu.
func (b *budget) grant() {
	for len(b.waiting) > 0 && b.waiting[0].size <= b.free {
		b.free -= b.waiting[0].size
		close(b.waiting[0].granted)
		b.waiting = b.waiting[1:]
	}
}

// documentCharge returns the memory to acquire for a body of size bytes.
func documentCharge(size int64) int64 { return documentCopies * (size + 1<<10) }

// budgeted returns a handler for requests whose body contains a document. The handler acquires memory for
// the body before it calls do, which reads the body, and releases the memory after do has returned.
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
		// The time that the request has waited for memory must not count towards its timeouts.
		rc := http.NewResponseController(w)
		body := &progressBody{ReadCloser: r.Body, extend: func() error { return rc.SetReadDeadline(time.Now().Add(bodyTimeout)) }}
		if body.extend() != nil || rc.SetWriteDeadline(time.Now().Add(api.DocumentPatience)) != nil {
			h.logger().Debug("the timeouts of the request cannot be set")
		}
		r.Body = body
		return do(w, r)
	}
}

// progressBody is a body whose read deadline is extended after every bodyProgress bytes. So a large
// document may take long on a busy machine, but a client that sends nothing cannot keep the memory for the
// document.
type progressBody struct {
	io.ReadCloser
	extend   func() error
	received int // number of bytes since the deadline was last extended
}

func (b *progressBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	// At the end of the body net/http has removed the deadline. Another one would cancel the request while it is
	// being processed.
	if b.received += n; b.received >= bodyProgress && err == nil {
		b.received = 0
		_ = b.extend() // on failure the old deadline stays
	}
	return n, err
}
