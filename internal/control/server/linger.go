package server

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/lnetd/lnetd/internal/control/api"
)

// lingerMax bounds the bytes of a body that are discarded after its answer: JSON takes up to
// six for one of a document.
const lingerMax = 6*api.DocumentMax + requestBodyMax

// requestBody is the body of a request. It notes how far it was read.
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

// linger sends the answer of a request, and then discards what is left of its body. If the
// connection were closed at once, a client that is still sending would get a broken pipe instead
// of the answer. net/http itself discards up to 256 KiB before an answer; if more is left, it
// announces with the answer that it closes the connection.
func (s *Server) linger(w http.ResponseWriter, r *http.Request, body *requestBody) {
	asks := r.Header.Get("Expect") != "" && !body.begun // the client sends nothing before it is asked to
	if body.ended || asks || r.ContentLength == 0 {
		return
	}
	rc := http.NewResponseController(w)
	if err := errors.Join(rc.Flush(), rc.SetReadDeadline(time.Now().Add(bodyPatience))); err != nil {
		return
	}
	n, err := io.Copy(io.Discard, io.LimitReader(body, lingerMax))
	if n > 0 {
		s.logger().Debug("the rest of a request was discarded", "bytes", n, "whole", body.ended, "err", err)
	}
}
