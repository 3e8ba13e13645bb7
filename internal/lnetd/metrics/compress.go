package metrics

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"sync"
)

// writers holds gzip writers for reuse. They use the fastest level of compression, which suffices because
// metrics are so repetitive, and takes a third of the time.
var writers = sync.Pool{New: func() any {
	w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is valid
	return w
}}

// concurrentWriters is the maximum number of responses that are built at the same time. Each needs about
// 5 MB of memory for metrics and 1 MB for compression.
const concurrentWriters = 4

// compressed returns a handler that sends the responses of h compressed with gzip. At most
// concurrentWriters responses are built at once. A response stays compressed in memory while its client
// reads it, which takes a fiftieth of the memory. For a client that does not accept gzip, it is
// decompressed while it is sent.
func compressed(h http.Handler) http.Handler {
	making := make(chan struct{}, concurrentWriters)
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

// bufferedResponse is an http.ResponseWriter that compresses the response and keeps it in memory until
// writeTo sends it.
type bufferedResponse struct {
	header http.Header
	status int // the status if the response is an error, otherwise 0
	body   bytes.Buffer
	z      *gzip.Writer
}

func compress(h http.Handler, header http.Header, r *http.Request) *bufferedResponse {
	a := &bufferedResponse{header: header, z: writers.Get().(*gzip.Writer)}
	a.z.Reset(&a.body)
	h.ServeHTTP(a, r)
	if a.status == 0 {
		_ = a.z.Close() // writing to the buffer cannot fail
	}
	writers.Put(a.z)
	a.z = nil
	return a
}

func (a *bufferedResponse) Header() http.Header { return a.header }

// WriteHeader records an error status. The body of an error is not compressed.
func (a *bufferedResponse) WriteHeader(status int) {
	if status != http.StatusOK {
		a.status = status
	}
}

func (a *bufferedResponse) Write(b []byte) (int, error) {
	if a.status != 0 {
		return a.body.Write(b)
	}
	return a.z.Write(b)
}

// writeTo sends the response, compressed if asGzip is set. It ignores errors, because they only mean that
// the client has disconnected.
func (a *bufferedResponse) writeTo(w http.ResponseWriter, asGzip bool) {
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

// takesGzip reports whether the client accepts responses that are compressed with gzip. It does not if the
// header Accept-Encoding does not contain gzip, or gives it the weight 0.
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
