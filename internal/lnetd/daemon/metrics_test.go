package daemon

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// fetch returns the status and the body of a response of the metrics listener, whose address is in the log.
func (r *daemonRun) fetch(t *testing.T, path string) (int, string) {
	t.Helper()
	_, rest, _ := strings.Cut(r.log.String(), `"msg":"serving metrics","address":"`)
	addr, _, _ := strings.Cut(rest, `"`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// The status page is served only if the configuration asks for it. Whether lnetd is alive and ready is always served.
func TestStatusPage(t *testing.T) {
	for _, tt := range []struct {
		config string
		page   int
	}{
		{"lnetd: {metrics_addr: '127.0.0.1:0'}", http.StatusNotFound},
		{"lnetd: {metrics_addr: '127.0.0.1:0', metrics: {status_page: true}}", http.StatusOK},
	} {
		r := startDaemon(t, host(lo), tt.config)
		c := r.ready(t)
		for _, path := range []string{"/", "/peers", "/style.css", "/script.js"} {
			if status, _ := r.fetch(t, path); status != tt.page {
				t.Errorf("%s: %s: status %d", tt.config, path, status)
			}
		}
		if status, body := r.fetch(t, "/"); status == http.StatusOK && (!strings.Contains(body, "<h1>lnetd on 127.0.0.1@tcp</h1>") || !strings.Contains(body, "LNET211")) {
			t.Errorf("the page: %s", body)
		}
		for _, path := range []string{"/healthz", "/readyz"} {
			if status, body := r.fetch(t, path); status != http.StatusOK || body != "ok\n" {
				t.Errorf("%s: %d, %q", path, status, body)
			}
		}
		if err := c.SetLNet(t.Context(), api.LNet{}); err != nil {
			t.Fatal(err)
		}
		if status, body := r.fetch(t, "/readyz"); status != http.StatusServiceUnavailable || body != "LNet is not configured\n" {
			t.Errorf("without LNet: %d, %q", status, body)
		}
		if status, body := r.fetch(t, "/peers"); status != tt.page || status == http.StatusOK && !strings.Contains(body, "LNet is not configured") {
			t.Errorf("without LNet: %d, %s", status, body)
		}
		r.stop(t)
	}
}
