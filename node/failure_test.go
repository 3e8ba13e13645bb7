package node_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selection"
)

// Given a peer that refuses, resets or closes connections, when a message to it fails,
// then the peer and the explanation of a path to it show that. Later failures without a
// connection do not hide the cause. A message from the peer clears it.
func TestFailuresAreRemembered(t *testing.T) {
	for _, c := range []struct {
		op   string
		err  error
		want string // empty if the error is not about the peer
	}{
		{"connect", syscall.ECONNREFUSED, "connection refused"},
		{"connect", syscall.ECONNRESET, "connection reset"},
		{"send", fmt.Errorf("write: %w", syscall.EPIPE), "connection reset"},
		{"receive", syscall.ECONNRESET, "connection reset"},
		{"connect", fmt.Errorf("hello: %w", io.EOF), "connection closed before it was established"},
		{"connect", lnd.ErrDisconnected, "connection closed before it was established"},
		{"send", lnd.ErrDisconnected, ""},
		{"connect", syscall.EHOSTUNREACH, "no IP route"},
		{"connect", syscall.ENETUNREACH, "no IP route"},
		{"connect", lnd.ErrTimeout, "timed out waiting for the answer"},
		{"connect", fmt.Errorf("%w: bad magic", lnd.ErrProtocol), "protocol error"},
		{"send", lnd.ErrUnreachable, ""},
		{"send", fmt.Errorf("%w: %w", lnd.ErrUnreachable, syscall.EHOSTUNREACH), ""},
		{"send", fmt.Errorf("%w: %w", lnd.ErrDisconnected, lnd.ErrRestarted), ""},
		{"send", errors.New("anything"), ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			name := c.op + ": " + c.err.Error()
			r := newRails(t, static(), 1, 1)
			r.hears(t)
			err := &lnd.Error{Driver: "test", Op: c.op, Peer: r.nb[0], Status: lnd.StatusRemoteError, Err: c.err}
			r.fails(func(*lnd.Tx) error { return err })
			check := func(when, want string) {
				t.Helper()
				tr := r.troubleOf(0)
				if tr.Failure != want || tr.Trouble != selection.NoTrouble || strings.HasPrefix(tr.String(), want+" at ") != (want != "") {
					t.Errorf("%s, %s: trouble %q (%+v), want %q", name, when, tr, tr, want)
				}
				steps := fmt.Sprint(r.a.Admin().Explain(r.nb[0], node.ExplainOptions{Portal: 1}).Steps)
				if shown := strings.Contains(steps, r.nb[0].String()+": "+want+" at ") && want != ""; shown != (want != "") {
					t.Errorf("%s, %s: explained by %s", name, when, steps)
				}
			}
			r.put(t, node.PutOptions{})
			check("failed", c.want)
			err = &lnd.Error{Driver: "test", Op: "send", Peer: r.nb[0], Status: lnd.StatusRemoteError, Err: lnd.ErrUnreachable}
			r.put(t, node.PutOptions{})
			check("failed without a connection", c.want)
			r.fails(nil)
			r.hears(t)
			check("heard", "")
		})
	}
}

// Given a peer to which a connection ends while no message waits, then a reset is
// recorded, but not a proper close.
func TestLostConnectionsAreRemembered(t *testing.T) {
	for err, want := range map[error]string{
		error(syscall.ECONNRESET): "connection reset",
		lnd.ErrDisconnected:       "",
		io.EOF:                    "",
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRails(t, static(), 1, 1)
			r.hears(t)
			r.ports[r.na[0]].upper.PeerDown(lnd.PeerDown{Peer: r.nb[0], Err: fault(lnd.StatusRemoteDropped, r.nb[0], err)})
			r.ports[r.na[0]].upper.PeerDown(lnd.PeerDown{Peer: lnet.NIDFromNumber(r.nb[0].Net(), 77), Err: err}) // unknown
			if got := r.troubleOf(0).Failure; got != want {
				t.Errorf("%v: %q, want %q", err, got, want)
			}
		})
	}
}
