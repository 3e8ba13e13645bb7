package metrics

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// slowReader reads nothing of an answer until it is released.
type slowReader struct {
	*httptest.ResponseRecorder
	once    sync.Once
	waiting chan<- struct{}
	read    <-chan struct{}
}

func (s *slowReader) Write(b []byte) (int, error) {
	s.once.Do(func() { s.waiting <- struct{}{} })
	<-s.read
	return s.ResponseRecorder.Write(b)
}

// Given addresses that scrape repeatedly and do not read, a scrape is refused only if it is from
// one of these addresses, or if the total number is at its limit. After the others have read,
// scrapes are accepted again. The two paths of health checks are answered all the time.
func TestSlowScrapersAreInTheWayOfTheirOwn(t *testing.T) {
	h := Handler(&fakeSource{}, Options{Others: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})})
	path := "/metrics"
	request := func(from string) *http.Request {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		r.RemoteAddr = from
		return r
	}
	gets := func(from string, want int) {
		t.Helper()
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, request(from)); w.Code != want {
			t.Errorf("%s: status %d, want %d", from, w.Code, want)
		}
	}
	waiting, read := make(chan struct{}), make(chan struct{})
	var group sync.WaitGroup
	for k := range scrapesAtOnce {
		from := fmt.Sprintf("[2001:db8:%d::1]:%d", k/scrapesPerAddress, 1000+k)
		w := &slowReader{ResponseRecorder: httptest.NewRecorder(), waiting: waiting, read: read}
		group.Go(func() { h.ServeHTTP(w, request(from)) })
		<-waiting
		if k == scrapesPerAddress-1 {
			gets("[2001:db8:0::2]:7", http.StatusTooManyRequests)
			gets("10.0.0.1:7", http.StatusOK)
		}
	}
	gets("10.0.0.1:7", http.StatusTooManyRequests)
	for _, path = range []string{"/healthz", "/readyz"} {
		gets("[2001:db8:0::2]:7", http.StatusOK)
	}
	path = "/metrics"
	close(read)
	group.Wait()
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, request("10.0.0.9:7")); !strings.Contains(w.Body.String(), "\nlnetd_scrapes_refused_total 2\n") {
		t.Error("the two that were refused are not counted")
	}
	for k := range scrapesAtOnce {
		gets("[2001:db8:0::2]:7", http.StatusOK)
		gets(fmt.Sprintf("10.0.0.%d:7", k), http.StatusOK)
	}
}

// Health checks have limits too, because a check of a password takes time.
func TestHealthChecksAreBounded(t *testing.T) {
	began, end := make(chan struct{}), make(chan struct{})
	h := &bounded{next: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			began <- struct{}{}
			<-end
		}
	})}
	get := func(path string) int {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		return w.Code
	}
	var group sync.WaitGroup
	for range scrapesPerAddress {
		group.Go(func() { get("/healthz") })
		<-began
	}
	for path, want := range map[string]int{"/healthz": http.StatusTooManyRequests, "/readyz": http.StatusTooManyRequests, "/metrics": http.StatusOK} {
		if got := get(path); got != want {
			t.Errorf("%s: status %d, want %d", path, got, want)
		}
	}
	close(end)
	group.Wait()
}
