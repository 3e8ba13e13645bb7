package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// changing is a backend that counts documents and changes nothing.
type changing struct {
	fakeBackend
	mu   sync.Mutex
	done int // number of documents
}

func (c *changing) InTurn(_ context.Context, do func()) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	do()
	return nil
}

func (c *changing) LNetDown() bool { return false }

func (c *changing) ChangeConfiguration(context.Context, api.ConfigurationChange) (api.ConfigurationChanged, error) {
	c.done++
	return api.ConfigurationChanged{}, nil
}

// TestDocumentsShareMemory: given memory for four documents, when one user begins to send one on
// each of the maximum number of connections, then four are read. When the clients send the rest,
// all are processed.
func TestDocumentsShareMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const connections, size, room = maxRequests, 32 << 10, 4
		b := &changing{}
		dial, end := servePipes(t, &Server{Backend: b, documents: room * documentCharge(size)})
		defer end()
		body := `{"mode": "add", "text": "` + strings.Repeat("x", size-100) + `"}`
		body += strings.Repeat(" ", size-len(body))
		var begun atomic.Int32 // number of documents that are being read
		rest := make(chan struct{})
		statuses := make(chan int, connections)
		for range connections {
			conn := dial()
			go func() {
				defer func() { _ = conn.Close() }()
				_, _ = fmt.Fprintf(conn, "POST /v1/configuration HTTP/1.1\r\nHost: lnetd\r\nContent-Length: %d\r\n\r\n", size)
				_, _ = io.WriteString(conn, body[:size/2]) // more than net/http reads ahead
				begun.Add(1)
				<-rest
				_, _ = io.WriteString(conn, body[size/2:])
				resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Error(err)
					statuses <- 0
					return
				}
				_ = resp.Body.Close()
				statuses <- resp.StatusCode
			}()
		}
		synctest.Wait()
		if n := begun.Load(); n != room {
			t.Errorf("%d documents are read at once, want %d", n, room)
		}
		close(rest)
		for range connections {
			if status := <-statuses; status != http.StatusOK {
				t.Errorf("status %d", status)
			}
		}
		if b.done != connections {
			t.Errorf("%d documents were done", b.done)
		}
	})
}

// slow is a Backend whose changes take longer than the rest of a body may.
type slow struct{ changing }

func (s *slow) ChangeConfiguration(ctx context.Context, _ api.ConfigurationChange) (api.ConfigurationChanged, error) {
	time.Sleep(3 * bodyTimeout)
	return api.ConfigurationChanged{}, context.Cause(ctx)
}

// TestLongChange checks that the time limit for the body of a request ends with the body, also if that ends where the
// limit is extended.
func TestLongChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial, end := servePipes(t, &Server{Backend: &slow{}})
		defer end()
		conn := dial()
		defer func() { _ = conn.Close() }()
		body := `{"mode": "add", "text": "x", "dry": true}`
		body += strings.Repeat(" ", bodyProgress-len(body))
		go func() {
			_, _ = fmt.Fprintf(conn, "POST /v1/configuration HTTP/1.1\r\nHost: lnetd\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		}()
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusOK {
			text, _ := io.ReadAll(resp.Body)
			t.Errorf("status %d: %s", resp.StatusCode, text)
		}
		_ = resp.Body.Close()
	})
}

// servePipes serves in-memory connections until end is called.
func servePipes(t *testing.T, s *Server) (dial func() net.Conn, end func()) {
	t.Helper()
	l := &pipes{calls: make(chan net.Conn), closed: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l) }()
	dial = func() net.Conn {
		ours, theirs := net.Pipe()
		l.calls <- theirs
		return ours
	}
	return dial, func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
}

// pipes is a listener for in-memory connections.
type pipes struct {
	calls  chan net.Conn
	closed chan struct{}
	close  sync.Once
}

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-l.calls:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error { l.close.Do(func() { close(l.closed) }); return nil }

func (l *pipes) Addr() net.Addr { return &net.UnixAddr{Net: "unix", Name: "pipe"} }
