package client

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// hasty is a connection to a server that reads the first bytes of a request, then answers and
// closes the connection.
type hasty struct {
	net.Conn
	taken  int           // bytes of the request that it still reads
	closed chan struct{} // by the server
	answer io.Reader
}

func (h *hasty) Write(b []byte) (int, error) {
	if h.taken >= len(b) {
		h.taken -= len(b)
		return len(b), nil
	}
	select {
	case <-h.closed:
	default:
		close(h.closed)
	}
	return 0, &net.OpError{Op: "write", Err: syscall.EPIPE}
}

func (h *hasty) Read(b []byte) (int, error) {
	<-h.closed
	return h.answer.Read(b)
}

// TestAnswerBeforeTheRequestIsSent: given a server that answers and closes before it has read the
// whole request, then the client returns the answer. If there is no answer, it reports that the
// connection has ended.
func TestAnswerBeforeTheRequestIsSent(t *testing.T) {
	const refusal = `{"error":{"code":"busy","errno":-16,"text":"no room"}}`
	for _, tt := range []struct {
		name, answer string
		want         api.Code
	}{
		{"an answer", "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n\r\n" + refusal, api.CodeBusy},
		{"none", "", api.CodeDaemonUnreachable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			defer func() { _ = theirs.Close() }()
			c := New("")
			c.http.Transport = &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
				return &conn{Conn: &hasty{Conn: ours, taken: 64 << 10, closed: make(chan struct{}), answer: strings.NewReader(tt.answer)}}, nil
			}}
			_, err := c.Errands(t.Context(), api.Document{Text: strings.Repeat("x", 1<<20)})
			wantFault(t, err, tt.want)
		})
	}
}

// TestNothingWasWritten: given a connection that lnetd has closed since its last answer, then a
// request of which nothing could be written is repeated on another connection.
func TestNothingWasWritten(t *testing.T) {
	ours, theirs := net.Pipe()
	defer func() { _, _ = ours.Close(), theirs.Close() }()
	dialed := 0
	c := New("")
	c.http.Transport = &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		dialed++
		h := &used{Conn: ours, written: make(chan struct{}, 1), closed: make(chan struct{})}
		return &conn{Conn: h}, nil
	}}
	for range 2 {
		if err := c.SetLNet(t.Context(), api.LNet{}); err != nil {
			t.Error(err)
		}
	}
	if dialed != 2 {
		t.Errorf("%d connections, want 2", dialed)
	}
}

// used is a connection to a server that answers one request. Later writes fail.
type used struct {
	net.Conn
	writes, reads int
	written       chan struct{}
	closed        chan struct{}
	once          sync.Once
}

func (u *used) Write(b []byte) (int, error) {
	if u.writes++; u.writes > 1 {
		return 0, &net.OpError{Op: "write", Err: syscall.EPIPE}
	}
	u.written <- struct{}{}
	return len(b), nil
}

func (u *used) Read(b []byte) (int, error) {
	if u.reads++; u.reads > 1 {
		<-u.closed
		return 0, net.ErrClosed
	}
	<-u.written
	return copy(b, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"), nil
}

func (u *used) Close() error { u.once.Do(func() { close(u.closed) }); return nil }
