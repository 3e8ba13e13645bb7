package server

import (
	"errors"
	"net/http"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// pageSize is the size at which a page is written. A list that is read slowly keeps at most one
// page and one item in memory.
const pageSize = 16 << 10

// pages writes a reply in pages. The client has ReplyPatience for each page.
type pages struct {
	w    http.ResponseWriter // if nil, the whole reply stays in buf
	conn *connection
	buf  []byte
	// sent is the number of bytes written before buf.
	sent int
}

// size returns the size of the reply so far.
func (p *pages) size() int { return p.sent + len(p.buf) }

// turn writes the page if it is full.
func (p *pages) turn() error {
	if len(p.buf) < pageSize {
		return nil
	}
	return p.flush()
}

// write writes a complete reply in pages. The connection is charged for its size meanwhile.
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

// flush writes the buffered data.
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
