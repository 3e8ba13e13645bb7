package server

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// response is what came of a request.
type response struct {
	status int
	header http.Header
	body   string
	err    error // why the body ended early
}

// request asks as any HTTP client may.
func request(t *testing.T, path, method, target, body string) response {
	t.Helper()
	h := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}}}
	defer h.CloseIdleConnections()
	var content io.Reader = http.NoBody
	if body != "" {
		content = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, "http://lnetd"+target, content)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := h.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	return response{resp.StatusCode, resp.Header, string(b), err}
}
