package server

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// lingerMax is the maximum number of body bytes that are discarded after a reply. JSON may encode
// one byte of a document in six.
const lingerMax = 6*api.DocumentMax + requestBodyMax

// requestBody is the body of a request. It records how far it was read.
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

// linger sends the reply of a request and then discards the rest of its body. If the connection
// were closed immediately, a client that is still sending would get a broken pipe instead of the
// reply. net/http itself discards up to 256 KiB before a reply; if more is left, the reply
// announces that the connection will be closed.
func (s *Server) linger(w http.ResponseWriter, r *http.Request, body *requestBody) {
	asks := r.Header.Get("Expect") != "" && !body.begun // the client waits for a 100 Continue
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
