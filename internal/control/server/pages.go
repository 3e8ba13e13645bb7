package server

import (
	"errors"
	"net/http"
	"time"

	"github.com/lnetd/lnetd/internal/control/api"
)

// pageSize is how much of an answer is made before it is written: of a list that
// is read slowly no more than this is kept, and what its next item takes.
const pageSize = 16 << 10

// pages write an answer. For each page the client has ReplyPatience.
type pages struct {
	w    http.ResponseWriter // nil: the whole answer stays in buf
	conn *connection
	buf  []byte
	// sent is what has been written before buf.
	sent int
}

// size is how long the answer is so far.
func (p *pages) size() int { return p.sent + len(p.buf) }

// turn writes the page if it is full.
func (p *pages) turn() error {
	if len(p.buf) < pageSize {
		return nil
	}
	return p.flush()
}

// write writes a whole answer, in pages. The connection holds it meanwhile.
func (p *pages) write(b []byte) error {
	p.conn.hold(len(b))
	defer p.conn.hold(0)
	for len(b) > 0 {
		n := min(len(b), pageSize)
		p.buf = b[:n:n]
		if err := p.flush(); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// flush writes what there is.
func (p *pages) flush() error {
	if p.w == nil {
		return nil
	}
	deadline := time.Now().Add(api.ReplyPatience)
	if err := http.NewResponseController(p.w).SetWriteDeadline(deadline); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	p.conn.waiting()
	n, err := p.w.Write(p.buf)
	p.sent += n
	p.buf = p.buf[:0]
	return err
}
