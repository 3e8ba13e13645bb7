package server_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/server"
	"github.com/lnetd/lnetd/internal/testing/controltest"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/simlnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selftest"
	"github.com/lnetd/lnetd/selftest/console"
)

// lstNode is a daemon with selftest enabled, alone on a network in memory.
type lstNode struct {
	server.Selftest // nil: the tests do not call its other methods
	console         *console.Console
}

func (n lstNode) Console() (*console.Console, error) { return n.console, nil }
func (n lstNode) Status() api.LstStatus              { return api.LstStatus{Enabled: true} }

func newLstNode(t *testing.T) lstNode {
	t.Helper()
	fabric := simlnd.New(simlnd.Config{Seed: 1})
	t.Cleanup(fabric.Close)
	driver, err := simlnd.NewDriver(fabric.Host("a", "10.0.0.1"), socklnd.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	n, err := node.New(node.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.AddNI(t.Context(), driver, lnd.Config{Net: tcp, NID: lnet.NIDFromIP(tcp, netip.MustParseAddr("10.0.0.1"))}); err != nil {
		t.Fatal(err)
	}
	agent, err := selftest.Enable(n, selftest.Config{})
	if err != nil {
		t.Fatal(err)
	}
	c := console.New(n, agent, console.Config{})
	t.Cleanup(func() {
		for _, end := range []func(context.Context) error{c.Close, agent.Close, n.Close} {
			if err := end(context.Background()); err != nil {
				t.Error(err)
			}
		}
		if err := driver.Close(); err != nil {
			t.Error(err)
		}
	})
	return lstNode{console: c}
}

// holder is a client that holds a session.
type holder struct {
	conn   net.Conn
	status int
	rest   io.ReadCloser // rest of the answer, which ends with the hold
}

func hold(t *testing.T, path string) holder {
	t.Helper()
	h := holder{}
	dial := func(ctx context.Context, _, _ string) (_ net.Conn, err error) {
		h.conn, err = new(net.Dialer).DialContext(ctx, "unix", path)
		return h.conn, err
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://lnetd/v1/lst/hold_session", strings.NewReader(`{"key":7}`))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Transport{DialContext: dial}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = resp.Body.Close()
		_ = h.conn.Close()
	})
	h.status, h.rest = resp.StatusCode, resp.Body
	return h
}

// wantOver waits until lnetd releases the hold.
func (h *holder) wantOver(t *testing.T) {
	t.Helper()
	if _, err := io.Copy(io.Discard, h.rest); err != nil {
		t.Error(err)
	}
}

// TestLstHoldersAreInNobodysWay checks that the maximum number of holders does not block commands
// or the status. The end of the session ends all holds, even of clients whose departure lnetd
// cannot detect because they have sent more data.
func TestLstHoldersAreInNobodysWay(t *testing.T) {
	c, path := serve(t, &controltest.Daemon{Lst: newLstNode(t)})
	if _, err := c.LstNewSession(t.Context(), api.LstNewSession{Key: 7, Name: "s"}); err != nil {
		t.Fatal(err)
	}
	var holders []holder
	for {
		h := hold(t, path)
		if h.status == http.StatusServiceUnavailable {
			break
		}
		if h.status != http.StatusOK || len(holders) > 1000 {
			t.Fatalf("holder %d: status %d", len(holders), h.status)
		}
		if _, err := h.conn.Write([]byte("more")); err != nil {
			t.Fatal(err)
		}
		holders = append(holders, h)
	}
	if len(holders) < 2 {
		t.Errorf("%d holders", len(holders))
	}
	if _, err := c.LstGroups(t.Context(), 7); err != nil {
		t.Error(err)
	}
	if s, err := c.LstStatus(t.Context()); err != nil || !s.Enabled {
		t.Errorf("%+v, %v", s, err)
	}
	if err := c.LstEndSession(t.Context(), 7); err != nil {
		t.Error(err)
	}
	for _, h := range holders {
		h.wantOver(t)
	}
	if _, err := c.LstNewSession(t.Context(), api.LstNewSession{Key: 7, Name: "next"}); err != nil {
		t.Fatal(err)
	}
	if h := hold(t, path); h.status != http.StatusOK {
		t.Errorf("there is no place after the holders: status %d", h.status)
	}
}

// TestLstHolderGoes checks that the session ends when its holder leaves.
func TestLstHolderGoes(t *testing.T) {
	n := newLstNode(t)
	c, _ := serve(t, &controltest.Daemon{Lst: n})
	if _, err := c.LstNewSession(t.Context(), api.LstNewSession{Key: 7, Name: "s"}); err != nil {
		t.Fatal(err)
	}
	release, err := c.LstHoldSession(t.Context(), 7)
	if err != nil {
		t.Fatal(err)
	}
	watched, err := n.console.Hold(7)
	if err != nil {
		t.Fatal(err)
	}
	release()
	<-watched.Over()
}

// TestLstNewSessionOfOneWhoHasGone checks that a session is removed if its client leaves before it
// gets the answer.
func TestLstNewSessionOfOneWhoHasGone(t *testing.T) {
	n := newLstNode(t)
	s := server.Server{Backend: &controltest.Daemon{Lst: n}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/lst/new_session", strings.NewReader(`{"key":7,"name":"s"}`))
	s.Handler().ServeHTTP(httptest.NewRecorder(), r)
	if _, err := n.console.NewSession(t.Context(), console.SessionOptions{Key: 8, Name: "next"}); err != nil {
		t.Error(err)
	}
}
