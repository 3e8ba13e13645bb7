package metrics

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener whose connections are in memory.
type pipes struct {
	calls  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

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

// Given TLS, when a client sends nothing, or stops within its hello, or sends its request very
// slowly, or keeps an idle connection, then it is cut off in time.
func TestSlowClientsUnderTLS(t *testing.T) {
	dir, ca := site(t)
	webConfig := writeFile(t, dir, "web.yml", onlyTLS)
	secured := func(c net.Conn) net.Conn {
		return tls.Client(c, &tls.Config{RootCAs: ca.pool(), ServerName: "127.0.0.1"})
	}
	// dribble sends a byte per second, and reads until it is cut off.
	dribble := func(c net.Conn, text string) {
		cut := make(chan struct{})
		go func() {
			defer close(cut)
			_, _ = io.Copy(io.Discard, c)
		}()
		for k := range len(text) {
			if _, err := io.WriteString(c, text[k:k+1]); err != nil {
				break
			}
			time.Sleep(time.Second)
		}
		<-cut
	}
	const request = "GET /metrics HTTP/1.1\r\nHost: x\r\n"
	for name, c := range map[string]struct {
		do    func(net.Conn)
		after time.Duration
	}{
		"nothing said":   {func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, 5 * time.Second},
		"slow handshake": {func(c net.Conn) { dribble(c, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 and so on") }, 5 * time.Second},
		"nothing asked":  {func(c net.Conn) { _, _ = io.Copy(io.Discard, secured(c)) }, 5 * time.Second},
		"slow request":   {func(c net.Conn) { dribble(secured(c), request+"\r\n") }, 5 * time.Second},
		"no second request": {func(c net.Conn) {
			s := secured(c)
			_, _ = io.WriteString(s, request+"\r\n")
			_, _ = io.Copy(io.Discard, s)
		}, 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &pipes{calls: make(chan net.Conn), closed: make(chan struct{})}
				ctx, cancel := context.WithCancel(t.Context())
				served := make(chan error, 1)
				go func() { served <- Serve(ctx, p, ok, webConfig, slog.New(slog.DiscardHandler)) }()
				ours, theirs := net.Pipe()
				p.calls <- theirs
				began := time.Now()
				c.do(ours)
				if took := time.Since(began); took < c.after || took > c.after+time.Second {
					t.Errorf("cut off after %v, want %v", took, c.after)
				}
				_ = ours.Close()
				cancel()
				if err := <-served; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Given one connection too many over TLS, when all have sent a request, then one of them is no
// longer served.
func TestServeBoundsConnectionsUnderTLS(t *testing.T) {
	dir, ca := site(t)
	addr := guarded(t, writeFile(t, dir, "web.yml", onlyTLS), ok, io.Discard)
	conns := make([]net.Conn, connectionsPerAddress+1)
	for k := range conns {
		c, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: ca.pool()})
		if err != nil {
			t.Fatal(err)
		}
		conns[k] = c
		asks(c)
	}
	count := 0
	for _, c := range conns {
		if asks(c) {
			count++
		}
		_ = c.Close()
	}
	if count != connectionsPerAddress {
		t.Errorf("%d connections are served, want %d", count, connectionsPerAddress)
	}
}

// Given one connection too many, of a client over TLS that does not read, it is closed without
// close_notify, which would delay all new clients.
func TestConnectionsAreCutWithoutGoodbye(t *testing.T) {
	ca := newAuthority(t, "ca")
	ours, theirs := net.Pipe()
	client := tls.Client(ours, &tls.Config{RootCAs: ca.pool(), ServerName: "127.0.0.1"})
	done := make(chan error, 1)
	go func() { done <- client.Handshake() }()
	plain := &counting{Conn: theirs}
	server := tls.Server(plain, &tls.Config{Certificates: []tls.Certificate{ca.pair(t, "own", longOn)}, SessionTicketsDisabled: true})
	if err := server.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	plain.said = 0
	var c connections
	for range connectionsPerAddress + 1 {
		c.note(server, http.StateNew)
	}
	if plain.said != 0 {
		t.Errorf("%d bytes of goodbye", plain.said)
	}
	if _, err := ours.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("it is open: %v", err)
	}
}

// counting counts the written bytes.
type counting struct {
	net.Conn
	said int
}

func (s *counting) Write(b []byte) (int, error) { s.said += len(b); return s.Conn.Write(b) }
