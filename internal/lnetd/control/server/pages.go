package server

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// pageSize is the size in bytes at which a page of a reply is sent. While a client reads a list slowly, at
// most one page and one item of it are in memory.
const pageSize = 16 << 10

// pages sends a reply in pages. The client has the time api.ReplyPatience to read each page.
type pages struct {
	w    http.ResponseWriter // if nil, the whole reply stays in buf
	conn *connection
	buf  []byte
	// sent is the number of bytes of the reply that were sent before those in buf.
	sent int
}

// size returns the number of bytes of the reply so far, sent or not.
func (p *pages) size() int { return p.sent + len(p.buf) }

// turn sends the buffered data if there is at least a page of it.
func (p *pages) turn() error {
	if len(p.buf) < pageSize {
		return nil
	}
	return p.flush()
}

// write sends a complete reply in pages. Until the client has read it, its size counts towards the limit of
// waiting replies.
func (p *pages) write(b []byte) error {
	p.conn.hold(len(b))
	defer p.conn.hold(0)
	p.buf = b
	return p.flush()
}

// flush sends the buffered data in pages. If p.w is nil, it does nothing.
func (p *pages) flush() error {
	if p.w == nil {
		return nil
	}
	for page := range slices.Chunk(p.buf, pageSize) {
		if err := p.send(page); err != nil {
			return err
		}
	}
	p.buf = p.buf[:0]
	return nil
}

// send sends one page.
func (p *pages) send(page []byte) error {
	deadline := time.Now().Add(api.ReplyPatience)
	if err := http.NewResponseController(p.w).SetWriteDeadline(deadline); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	p.conn.waiting()
	n, err := p.w.Write(page)
	p.sent += n
	return err
}
