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

// Given connections that have been served and stay, when one address has too many, or
// there are too many in all, then that goes which was served longest ago, of the same
// address or of any, and who comes then is served.
func TestIdleConnectionsAreBounded(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, l, Handler(&fakeSource{}, "v"), slog.New(slog.DiscardHandler)) }()
	dial := func(host int) net.Conn {
		t.Helper()
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(fmt.Sprintf("127.0.9.%d", host))}}
		c, err := d.DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	asks := func(c net.Conn) bool {
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
	check := func(who string, c net.Conn, want bool) {
		t.Helper()
		if got := asks(c); got != want {
			t.Errorf("%s is served: %t, want %t", who, got, want)
		}
	}

	first := dial(1)
	check("the first", first, true)
	crowd := []net.Conn{}
	for k := range connectionsAtOnce {
		c := dial(2 + k/connectionsPerAddress)
		check("each", c, true)
		crowd = append(crowd, c)
	}
	check("the first of all, of too many", first, false)
	one := dial(2)
	check("one more of an address", one, true)
	check("the first of that address", crowd[0], false)
	check("the second of that address", crowd[1], true)
	check("somebody else", dial(200), true)
	check("the third of that address, now the first of all", crowd[2], false)
	check("the second of that address", crowd[1], true)
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// All that are being served stay, and who comes then goes.
func TestConnectionsThatAreServedStay(t *testing.T) {
	var c connections
	open := func() (net.Conn, net.Conn) {
		one, other := net.Pipe()
		c.note(one, http.StateNew)
		return one, other
	}
	for range connectionsPerAddress {
		one, _ := open()
		c.note(one, http.StateActive)
	}
	one, other := open()
	if _, err := other.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("%v, want the end", err)
	}
	c.note(one, http.StateClosed) // as the server does
	if len(c.list) != connectionsPerAddress {
		t.Errorf("%d connections, want the %d that are served", len(c.list), connectionsPerAddress)
	}
	c.note(c.list[3].Conn, http.StateClosed)
	if len(c.list) != connectionsPerAddress-1 {
		t.Errorf("%d connections after one has gone", len(c.list))
	}
}
