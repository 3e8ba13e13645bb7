package server_test

import (
	"context"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/lnetd/lnetd/internal/control/api"
	"github.com/lnetd/lnetd/internal/control/controltest"
	"github.com/lnetd/lnetd/internal/control/server"
)

// A hundred connections that send a document each take no more memory than there is for
// documents, and all of them are served.
func TestDocumentsShareMemory(t *testing.T) {
	const connections, size = 100, 4 << 20
	var peak uint64
	changed := 0
	d := &controltest.Daemon{}
	d.ChangeFunc = func(r api.ConfigurationChange) (api.ConfigurationChanged, error) { // in turn
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		peak = max(peak, m.HeapInuse)
		if len(r.Text) == size {
			changed++
		}
		return api.ConfigurationChanged{}, nil
	}
	_, path := serve(t, d)
	h := http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", path)
	}}}
	defer h.CloseIdleConnections()
	body := `{"mode": "add", "text": "` + strings.Repeat("x", size) + `"}`
	var all sync.WaitGroup
	refusals := make(chan int, connections)
	for range connections {
		all.Go(func() {
			r, err := h.Post("http://lnetd/v1/configuration", "application/json", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			if _ = r.Body.Close(); r.StatusCode != http.StatusOK {
				refusals <- r.StatusCode
			}
		})
	}
	all.Wait()
	close(refusals)
	refused := 0
	for status := range refusals {
		if refused++; status != http.StatusServiceUnavailable && status != http.StatusBadRequest {
			t.Errorf("status %d", status)
		}
	}
	const mine = 128 << 20 // the test's own, and what the collector has not come to
	if peak > 2*server.DocumentsBudget+mine || changed+refused != connections {
		t.Errorf("%d MiB, %d changes, %d refused", peak>>20, changed, refused)
	}
	t.Logf("%d connections with %d MiB each: %d MiB of heap at most, %d changes, %d refused", connections, size>>20, peak>>20, changed, refused)
}
