package metrics

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
)

// link is a connection from an address.
type link struct {
	net.Conn
	from   string
	closed bool
}

func (l *link) RemoteAddr() net.Addr { return l }
func (l *link) Network() string      { return "tcp" }
func (l *link) String() string       { return l.from + ":7" }
func (l *link) Close() error         { l.closed = true; return nil }

// open opens an incoming connection. served means that it has a request.
func (c *connections) open(from string) *link {
	l := &link{from: from}
	c.note(l, http.StateNew)
	return l
}

func (c *connections) served(l *link) *link {
	c.note(l, http.StateActive)
	c.note(l, http.StateIdle)
	return l
}

// Given idle connections, when one address has too many, or there are too many in all, then the
// connection that has been idle for longest is closed: one of the same address, or any.
func TestIdleConnectionsAreBounded(t *testing.T) {
	var c connections
	check := func(who string, l *link, closed bool) {
		t.Helper()
		if l.closed != closed {
			t.Errorf("%s is closed: %t, want %t", who, l.closed, closed)
		}
	}
	busy, first := c.open("a"), c.open("a")
	c.note(busy, http.StateActive)
	var crowd []*link
	for k := range connectionsAtOnce - 2 {
		crowd = append(crowd, c.open(fmt.Sprint("b", k/connectionsPerAddress)))
	}
	c.served(first)
	check("the first, of enough", first, false)
	c.open("c")
	check("who asked nothing, of too many", crowd[0], true)
	for range 2 { // replaces the closed one, and then another one of the same address
		c.open("b0")
	}
	check("the next one of that address", crowd[1], true)
	check("the next one of all", crowd[2], true)
	check("who has asked", first, false)
	check("who is being served", busy, false)
	if len(c.list) != connectionsAtOnce {
		t.Errorf("%d connections, want %d", len(c.list), connectionsAtOnce)
	}
	c.note(crowd[0], http.StateClosed) // as the server does
	c.note(busy, http.StateClosed)
	if len(c.list) != connectionsAtOnce-1 {
		t.Errorf("%d connections after one has gone, want %d", len(c.list), connectionsAtOnce-1)
	}
}

// Connections that are being served stay, and the new one is closed.
func TestConnectionsThatAreServedStay(t *testing.T) {
	var c connections
	for range connectionsPerAddress {
		c.note(c.open("a"), http.StateActive)
	}
	if !c.open("a").closed || c.open("b").closed {
		t.Error("one more of that address stays, or one of another goes")
	}
}

// IPv6 addresses of one network count as one address, because a host has any number of them.
func TestWhatCountsAsOneAddress(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"10.0.0.1:7", "10.0.0.1:8", true},
		{"10.0.0.1:7", "10.0.0.2:7", false},
		{"[2001:db8::1]:7", "[2001:db8::ffff:0:0:2]:7", true},
		{"[2001:db8::1]:7", "[2001:db8:0:1::1]:7", false},
		{"[fe80::1%eth0]:7", "[fe80::2%eth0]:7", true},
		{"[::ffff:10.0.0.1]:7", "10.0.0.1:7", true},
		{"[::ffff:10.0.0.1]:7", "[::ffff:10.0.0.2]:7", false},
	} {
		if a, b := addressOf(c.a), addressOf(c.b); (a == b) != c.same {
			t.Errorf("%s and %s stand for %s and %s", c.a, c.b, a, b)
		}
	}
}

// asks reports whether a connection is served.
func asks(c net.Conn) bool {
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		return false
	}
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, r.Body)
	_ = r.Body.Close()
	return err == nil
}

// Given one connection too many, when all have sent a request, then one of them is no longer
// served.
func TestServeBoundsConnections(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- Serve(ctx, l, Handler(&fakeSource{}, Options{}), "", slog.New(slog.DiscardHandler))
	}()
	conns := make([]net.Conn, connectionsPerAddress+1)
	for k := range conns {
		if conns[k], err = net.Dial("tcp", l.Addr().String()); err != nil {
			t.Fatal(err)
		}
		asks(conns[k])
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
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
