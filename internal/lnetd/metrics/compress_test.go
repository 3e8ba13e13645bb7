package metrics

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// Answers are compressed if the client accepts it. Errors are never compressed.
func TestCompression(t *testing.T) {
	text := strings.Repeat("metric 1\n", 10_000)
	h := compressed(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/error" {
			http.Error(w, "no", http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, text)
	}))
	for _, tt := range []struct {
		path, accept, want string
		gzip               bool
	}{
		{"/", "", text, false},
		{"/", "gzip", text, true},
		{"/", "zstd, GZIP;q=0.5", text, true},
		{"/", "gzip;q=1.0, *;q=0.1", text, true},
		{"/", "gzip; q=0.0", text, false},
		{"/", "br, deflate", text, false},
		{"/error", "gzip", "no\n", false},
	} {
		r := httptest.NewRequest(http.MethodGet, tt.path, nil)
		r.Header.Set("Accept-Encoding", tt.accept)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		size := w.Body.Len()
		var body io.Reader = w.Body
		if is := w.Header().Get("Content-Encoding") == "gzip"; is != tt.gzip {
			t.Errorf("%s %q: gzip %v", tt.path, tt.accept, is)
		} else if is {
			var err error
			if body, err = gzip.NewReader(w.Body); err != nil {
				t.Errorf("%s %q: %v", tt.path, tt.accept, err)
				continue
			}
			if size > len(text)/10 {
				t.Errorf("%d bytes", size)
			}
		}
		if got, err := io.ReadAll(body); err != nil || string(got) != tt.want {
			t.Errorf("%s %q: %d bytes, %v", tt.path, tt.accept, len(got), err)
		}
	}
}

// Given clients that do not read their answers, more of these than are generated at once, the next
// client gets its answer.
func TestAnswersThatAreNotRead(t *testing.T) {
	h := compressed(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "metric 1\n") }))
	waiting, read := make(chan struct{}), make(chan struct{})
	var group sync.WaitGroup
	for range 2 * concurrentWriters {
		w := &slowReader{ResponseRecorder: httptest.NewRecorder(), waiting: waiting, read: read}
		group.Go(func() { h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil)) })
		<-waiting
	}
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil)); w.Body.String() != "metric 1\n" {
		t.Errorf("%q", w.Body)
	}
	close(read)
	group.Wait()
}
