package client

import (
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/testing/testenv"
)

func TestNobodyAnswers(t *testing.T) {
	dir := t.TempDir()
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "dead")})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	_ = dead.Close()
	for file, cause := range map[string]string{"missing": "No such file or directory", "dead": "Connection refused"} {
		path := filepath.Join(dir, file)
		_, err := New(path).Version(t.Context())
		f := wantFault(t, err, api.CodeDaemonUnreachable)
		if f.Cause != cause || !strings.Contains(f.Text, path) || !strings.HasPrefix(f.Remedy, "start lnetd") {
			t.Errorf("%s: %+v", file, f)
		}
	}
}

// TestGarbledAnswers checks that the client detects a server on the socket that is not lnetd.
func TestGarbledAnswers(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"not JSON":        func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"error, no JSON":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
		"error, no fault": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(400); _, _ = w.Write([]byte("{}")) },
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := clientOf(t, answer)
			_, err := c.Version(t.Context())
			wantFault(t, err, api.CodeInternal)
		})
	}
}

func TestFewerResultsThanTargets(t *testing.T) {
	c, _ := clientOf(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"results":[]}`))
	})
	_, err := c.Ping(t.Context(), api.PingRequest{NIDs: []string{"10.0.0.1@tcp"}})
	wantFault(t, err, api.CodeInternal)
}

// wantFault returns the Fault in err, which must have the given code.
func wantFault(t *testing.T, err error, code api.Code) *api.Fault {
	t.Helper()
	var f *api.Fault
	if !errors.As(err, &f) || f.Code != code {
		t.Fatalf("%v, want %s", err, code)
	}
	return f
}

// serveOn serves requests on a listener by h until the end of the test.
func serveOn(t *testing.T, l net.Listener, h http.HandlerFunc) {
	t.Helper()
	s := &http.Server{Handler: h}
	served := make(chan struct{})
	go func() { _ = s.Serve(l); close(served) }()
	t.Cleanup(func() { _ = s.Close(); <-served })
}

// clientOf returns a client of a server that serves requests by h until the end of the test, and the path of its socket.
func clientOf(t *testing.T, h http.HandlerFunc) (c *Client, path string) {
	t.Helper()
	path = filepath.Join(testenv.SocketDir(t), "c.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	serveOn(t, l, h)
	c = New(path)
	t.Cleanup(c.Close)
	return c, path
}
