package main

import (
	"context"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// withoutRoutes returns a daemon like that at path, but one that cannot return its routes.
func withoutRoutes(t *testing.T, path string) string {
	t.Helper()
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "lnetd"})
	proxy.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
	own := filepath.Join(t.TempDir(), "s")
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", own)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { //nolint:gosec // a test's
		if r.URL.Path == "/v1/routes" {
			http.Error(w, `{"error": {"code": "internal", "errno": -5, "text": "boom"}}`, http.StatusInternalServerError)
			return
		}
		proxy.ServeHTTP(w, r)
	})}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	return own
}

// If a part of an export is missing, the export has failed, whatever parts come after it, and no
// file is overwritten.
//
// lnetctl 8 (1)
func TestExportWithoutAPartFails(t *testing.T) {
	path, file := withoutRoutes(t, serve(t, cannedPeer(t, "peerA"))), filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := runProgram(program{}, "export", file, "--control-socket", path)
	if want := (ran{"", newDocumentOf("show", "route", "-5", "boom"), exitInvalid}); got != want {
		t.Errorf("%+v", got)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "old" {
		t.Errorf("%v; the file has %d bytes", err, len(b))
	}
}

// If a disk becomes full among many peers, that is reported once.
func TestExportOfManyPeersToAFullDisk(t *testing.T) {
	n := cannedPeer(t, "peerA")
	peer := n.PeerList[0]
	for k := range 200 {
		peer.ID = 1000 + uint64(k)
		n.PeerList = append(n.PeerList, peer)
	}
	got := runProgram(program{}, "export", "/dev/full", "--control-socket", serve(t, n))
	want := oldDocumentOf("yaml", "builder", "-1", "cannot write '/dev/full': No space left on device")
	if got != (ran{"", want, exitFailure}) {
		t.Errorf("%+v", got)
	}
	got = runProgram(program{hints: true}, "export", "/dev/full", "--control-socket", serve(t, n))
	if !strings.Contains(got.stderr, "the file system of '/dev/full' is full") {
		t.Errorf("without a remedy: %+v", got)
	}
}
