package httpd

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener for in-memory connections.
type pipes struct {
	calls  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{calls: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.calls:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Net: "unix", Name: "pipe"} }

// get requests a path over a new connection.
func (p *pipes) get(path string) (status int, body string, _ error) {
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		p.calls <- theirs
		return ours, nil
	}}}
	resp, err := c.Get("http://host" + path)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// serve serves s in the background. stop ends it and returns the error of Serve.
func serve(t *testing.T, s *http.Server) (p *pipes, stop func() error) {
	p = newPipes()
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, p, s, nil) }()
	return p, func() error { cancel(); return <-served }
}

// TestEnd checks the requests that are in progress when the server stops. They are answered if they
// take no longer than stopPatience, and cut off otherwise. In both cases Serve returns nil.
func TestEnd(t *testing.T) {
	for name, tt := range map[string]struct {
		takes time.Duration
		whole bool
	}{"in time": {stopPatience - time.Second, true}, "too long": {stopPatience + time.Second, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun, ended := make(chan struct{}), make(chan struct{})
				p, stop := serve(t, &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					defer close(ended)
					close(begun)
					time.Sleep(tt.takes)
					_, _ = io.WriteString(w, "done")
				})})
				answered := make(chan error, 1)
				go func() {
					_, body, err := p.get("/")
					if err == nil && body != "done" {
						err = errors.New("half an answer: " + body)
					}
					answered <- err
				}()
				<-begun
				if err := stop(); err != nil {
					t.Error(err)
				}
				if err := <-answered; (err == nil) != tt.whole {
					t.Error(err)
				}
				<-ended
			})
		})
	}
}

// TestNoHandler checks that a server without a handler does not serve the handlers that other
// packages registered on http.DefaultServeMux.
func TestNoHandler(t *testing.T) {
	before := http.DefaultServeMux
	http.DefaultServeMux = http.NewServeMux()
	t.Cleanup(func() { http.DefaultServeMux = before })
	http.HandleFunc("/httpd-test", func(http.ResponseWriter, *http.Request) {})
	p, stop := serve(t, &http.Server{})
	if status, _, err := p.get("/httpd-test"); err != nil || status != http.StatusNotFound {
		t.Errorf("%d, %v", status, err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestListenerFails checks that the error of a failed listener ends the server.
func TestListenerFails(t *testing.T) {
	p := newPipes()
	_ = p.Close()
	if err := Serve(t.Context(), p, &http.Server{}, nil); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}
