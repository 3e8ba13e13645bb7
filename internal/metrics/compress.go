package metrics

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"sync"
)

// writers are those of compressed answers. Metrics repeat themselves so much that the
// fastest way makes them as small as anybody needs, in a third of the time.
var writers = sync.Pool{New: func() any {
	w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is one that there is
	return w
}}

// madeAtOnce bounds the answers that are made at once. Each takes about 5 MB of metrics, and
// 1 MB to compress them.
const madeAtOnce = 4

// compressed makes answers with h, a few at once, and keeps them compressed while clients read
// them, at a fiftieth of what they take while they are made. They are expanded for clients that
// do not accept gzip.
func compressed(h http.Handler) http.Handler {
	making := make(chan struct{}, madeAtOnce)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Accept-Encoding")
		select {
		case making <- struct{}{}:
		case <-r.Context().Done():
			return
		}
		a := compress(h, w.Header(), r)
		<-making
		a.writeTo(w, takesGzip(r))
	})
}

// kept is an answer that stays compressed while a client reads it. It is the http.ResponseWriter with
// which the answer is made.
type kept struct {
	header http.Header
	status int // 0: no error
	body   bytes.Buffer
	z      *gzip.Writer
}

func compress(h http.Handler, header http.Header, r *http.Request) *kept {
	a := &kept{header: header, z: writers.Get().(*gzip.Writer)}
	a.z.Reset(&a.body)
	h.ServeHTTP(a, r)
	if a.status == 0 {
		_ = a.z.Close() // the buffer returns no error
	}
	writers.Put(a.z)
	a.z = nil
	return a
}

func (a *kept) Header() http.Header { return a.header }

// WriteHeader notes an error, which stays as http.Error writes it.
func (a *kept) WriteHeader(status int) {
	if status != http.StatusOK {
		a.status = status
	}
}

func (a *kept) Write(b []byte) (int, error) {
	if a.status != 0 {
		return a.body.Write(b)
	}
	return a.z.Write(b)
}

// writeTo writes the answer. An error says that the client has left.
func (a *kept) writeTo(w http.ResponseWriter, asGzip bool) {
	switch {
	case a.status != 0:
		w.WriteHeader(a.status)
	case asGzip:
		w.Header().Set("Content-Encoding", "gzip")
	default:
		if z, err := gzip.NewReader(&a.body); err == nil {
			_, _ = io.Copy(w, z)
		}
		return
	}
	_, _ = w.Write(a.body.Bytes())
}

// takesGzip tells whether the client says so. A weight of 0 says that it does not.
func takesGzip(r *http.Request) bool {
	for _, list := range r.Header.Values("Accept-Encoding") {
		for e := range strings.SplitSeq(list, ",") {
			name, weight, _ := strings.Cut(e, ";")
			if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
				continue
			}
			q, given := strings.CutPrefix(strings.ReplaceAll(weight, " ", ""), "q=")
			return !given || strings.Trim(q, "0.") != ""
		}
	}
	return false
}
