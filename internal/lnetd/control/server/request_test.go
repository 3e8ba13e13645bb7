package server

import (
	"context"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// response is the result of a request.
type response struct {
	status int
	header http.Header
	body   string
	err    error // why the body ended early
}

// request sends a request with a plain HTTP client.
func request(t *testing.T, path, method, target, body string) response {
	t.Helper()
	return requestBy(t, func() (net.Conn, error) { return net.Dial("unix", path) }, method, target, body)
}

// requestAs sends a GET request as another user.
func requestAs(t *testing.T, uid uintptr, path, target string) response {
	t.Helper()
	return requestBy(t, func() (net.Conn, error) {
		var conn net.Conn
		failed := make(chan error, 1)
		go func() {
			runtime.LockOSThread() // never unlocked: the thread, which has the other user's ID, ends with the goroutine
			const same = ^uintptr(0)
			if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, same, uid, same); errno != 0 {
				failed <- errno
				return
			}
			var err error
			conn, err = net.Dial("unix", path)
			failed <- err
		}()
		err := <-failed
		return conn, err
	}, http.MethodGet, target, "")
}

func requestBy(t *testing.T, dial func() (net.Conn, error), method, target, body string) response {
	t.Helper()
	h := http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return dial()
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
