package server

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// lingerMax is the maximum number of bytes of a body that are discarded after a reply. It allows for JSON
// that encodes each byte of a document of maximum size in six bytes.
const lingerMax = 6*api.DocumentMax + requestBodyMax

// requestBody is the body of a request. It records whether reading has begun, and whether the end was
// reached.
type requestBody struct {
	io.ReadCloser
	begun, ended bool
}

func (b *requestBody) Read(p []byte) (int, error) {
	b.begun = true
	n, err := b.ReadCloser.Read(p)
	b.ended = b.ended || errors.Is(err, io.EOF)
	return n, err
}

// linger makes sure that a client which still sends its request gets the reply that has been written. It
// sends the buffered reply and then discards the rest of the request's body. If the connection were closed
// immediately, such a client would get a broken pipe instead of the reply. net/http itself discards only
// up to 256 KiB before a reply; if more is left, the reply announces that the connection will be closed.
func (s *Server) linger(w http.ResponseWriter, r *http.Request, body *requestBody) {
	asks := r.Header.Get("Expect") != "" && !body.begun // the client waits for "100 Continue" and sends no body
	if body.ended || asks || r.ContentLength == 0 {
		return
	}
	rc := http.NewResponseController(w)
	if err := errors.Join(rc.Flush(), rc.SetReadDeadline(time.Now().Add(bodyTimeout))); err != nil {
		return
	}
	n, err := io.Copy(io.Discard, io.LimitReader(body, lingerMax))
	if n > 0 {
		s.logger().Debug("discarded the unread rest of a control request", "bytes", n, "complete", body.ended, "err", err)
	}
}
