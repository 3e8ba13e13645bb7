package client

import (
	"bytes"
	"io"
	"sync"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// readAhead reads a body in another goroutine. If its reader pauses, it continues slowly, because otherwise lnetd
// would close the connection after api.ReplyPatience. It implements io.ReadCloser for one reader.
type readAhead struct {
	body io.ReadCloser
	most int // number of unread bytes from which it waits for the reader, at most readAheadPause
	// progress is called after each successful read of the body.
	progress func()

	mu      sync.Mutex // guards the fields below
	changed sync.Cond
	unread  bytes.Buffer
	err     error // the result of the last read of the body, or nil
	paused  bool  // the reader has paused for readAheadPause
	closed  bool
	ended   chan struct{} // closed when the goroutine has ended
}

func newReadAhead(body io.ReadCloser, most int, progress func()) *readAhead {
	r := &readAhead{body: body, most: most, progress: progress, ended: make(chan struct{})}
	r.changed.L = &r.mu
	go r.run()
	return r
}

const (
	// readAheadPage is the maximum size in bytes of one read of the body.
	readAheadPage = 64 << 10
	// readAheadPause is the time between reads of the body while the reader pauses.
	readAheadPause = api.ReplyPatience / 4
)

func (r *readAhead) run() {
	defer close(r.ended)
	b := make([]byte, readAheadPage)
	for more := true; more; {
		n, err := r.body.Read(b)
		if err == nil {
			r.progress()
		}
		more = r.add(b[:n], err)
	}
}

// add stores the result of reading the body, and waits if much is unread. It returns false if the goroutine must
// end.
func (r *readAhead) add(b []byte, err error) (more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unread.Write(b)
	r.err = err
	r.changed.Broadcast()
	if r.unread.Len() >= r.most && err == nil {
		r.wait()
	}
	return err == nil && !r.closed
}

// wait waits until less is unread, the body is closed, or the reader has paused for readAheadPause. The caller
// holds r.mu.
func (r *readAhead) wait() {
	r.paused = false
	pause := time.AfterFunc(readAheadPause, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.paused = true
		r.changed.Broadcast()
	})
	defer pause.Stop()
	for r.unread.Len() >= r.most && !r.closed && !r.paused {
		r.changed.Wait()
	}
}

// Read implements io.Reader.
func (r *readAhead) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.unread.Len() == 0 && r.err == nil {
		r.changed.Wait()
	}
	if r.unread.Len() == 0 {
		return 0, r.err
	}
	defer r.changed.Broadcast()
	return r.unread.Read(p)
}

// Close closes the body and waits until the goroutine has ended. The reader must not call Read any more.
func (r *readAhead) Close() error {
	r.mu.Lock()
	r.closed = true
	r.changed.Broadcast()
	r.mu.Unlock()
	err := r.body.Close()
	<-r.ended
	return err
}
