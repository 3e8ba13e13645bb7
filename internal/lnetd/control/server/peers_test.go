package server_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/testing/controltest"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// lnetctl 4.11 (1)
func TestPeersByAnyNID(t *testing.T) {
	d := &controltest.Daemon{PeerList: []api.Peer{aPeer("10.0.0.1@tcp", "10.1.0.1@tcp1"), aPeer("10.0.0.2@tcp")}}
	c, _ := serve(t, d)
	all, err := c.Peers(t.Context(), "")
	if diff := cmp.Diff(d.PeerList, all, sameNID); diff != "" || err != nil {
		t.Error(err, diff)
	}
	one, err := c.Peers(t.Context(), "10.1.0.1@tcp1")
	if diff := cmp.Diff(d.PeerList[:1], one, sameNID); diff != "" || err != nil {
		t.Error(err, diff)
	}
	_, err = c.Peers(t.Context(), "10.9.9.9@tcp")
	wantFault(t, err, api.CodePeerUnknown, syscall.ENOENT, "cannot find peer")
	_, err = c.Peers(t.Context(), "nonsense@")
	wantFault(t, err, api.CodeRequestInvalid, syscall.EINVAL, "cannot parse NID 'nonsense@'")
}

func TestAddPeer(t *testing.T) {
	d := &controltest.Daemon{}
	c, _ := serve(t, d)
	err := c.AddPeer(t.Context(), api.PeerAddition{
		Primary: nid("10.0.0.1@tcp"), NIDs: nids("10.1.0.1@tcp1"), SingleRail: true, LockPrimary: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	wantDone(t, d, "AddPeer 10.0.0.1@tcp [10.1.0.1@tcp1] {SingleRail:true Lock:true}")

	tests := []struct {
		name  string
		err   error
		code  api.Code
		errno syscall.Errno
		text  string
	}{
		{"primary NID of another", peerError("", discovery.ErrExists), api.CodePeerRefused, syscall.EEXIST, "failed to add primary peer"},
		{"further NID of another", peerError("10.1.0.1@tcp1", discovery.ErrLocked), api.CodePeerRefused, syscall.EALREADY, "failed to add peer"},
		{"other flags", peerError("", discovery.ErrPermission), api.CodePeerRefused, syscall.EPERM, "failed to add primary peer"},
		{"gateway", peerError("", discovery.ErrBusy), api.CodePeerRefused, syscall.EBUSY, "failed to add primary peer"},
		{"twice on a net", peerError("10.0.0.2@tcp", discovery.ErrNotUnique), api.CodePeerRefused, syscall.ENOTUNIQ, "failed to add peer"},
		{"shutdown", node.ErrClosed, api.CodeStopping, syscall.ESHUTDOWN, "Network is down"},
		{"unforeseen", errors.New("boom"), api.CodePeerRefused, syscall.EIO, "failed to add primary peer: Input/output error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d.Refuse = func(string) error { return fmt.Errorf("configure peer: %w", tt.err) }
			err := c.AddPeer(t.Context(), api.PeerAddition{Primary: nid("10.0.0.1@tcp")})
			wantFault(t, err, tt.code, tt.errno, tt.text)
			if f := api.FaultOf(err); f.Cause == "" || tt.errno != syscall.EIO && f.Remedy == "" {
				t.Errorf("no cause or remedy: %+v", f)
			}
		})
	}
}

func peerError(which string, err error) error {
	e := &discovery.PeerError{Op: "add", Peer: nid("10.0.0.1@tcp"), Err: err}
	if which != "" {
		e.NID = nid(which)
	}
	return e
}

// TestDeletePeer checks that all NIDs are validated before anything is deleted.
func TestDeletePeer(t *testing.T) {
	const peer, second, third = "10.0.0.1@tcp", "10.1.0.1@tcp1", "10.2.0.1@tcp2"
	tests := []struct {
		name  string
		r     api.PeerDeletion
		done  string // empty: refused
		errno syscall.Errno
	}{
		{"whole", api.PeerDeletion{Primary: nid(peer)}, "DeletePeer 10.0.0.1@tcp false", 0},
		{"by force", api.PeerDeletion{Primary: nid(peer), Force: true}, "DeletePeer 10.0.0.1@tcp true", 0},
		{"one NID", api.PeerDeletion{Primary: nid(peer), NIDs: nids(second)}, "DeletePeerNIDs 10.0.0.1@tcp [10.1.0.1@tcp1]", 0},
		{"primary NID among them", api.PeerDeletion{Primary: nid(peer), NIDs: nids(second, peer)}, "DeletePeer 10.0.0.1@tcp false", 0},
		{"one of two unknown", api.PeerDeletion{Primary: nid(peer), NIDs: nids(second, third)}, "", syscall.ENOENT},
		{"unknown with the primary NID", api.PeerDeletion{Primary: nid(peer), NIDs: nids(peer, third)}, "", syscall.ENOENT},
		{"unknown peer", api.PeerDeletion{Primary: nid(third)}, "", syscall.ENOENT},
		{"not the primary NID", api.PeerDeletion{Primary: nid(second)}, "", syscall.ENODEV},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := &controltest.Daemon{PeerList: []api.Peer{aPeer(peer, second)}}
			c, _ := serve(t, d)
			err := c.DeletePeer(t.Context(), tt.r)
			if tt.done != "" {
				if err != nil {
					t.Fatal(err)
				}
				wantDone(t, d, tt.done)
				return
			}
			code := api.CodePeerRefused
			if tt.errno == syscall.ENOENT {
				code = api.CodePeerUnknown
			}
			wantFault(t, err, code, tt.errno, "failed to del peer")
			wantDone(t, d)
		})
	}
}

// lnetctl 4.10 (4)
func TestDeleteGateway(t *testing.T) {
	d := &controltest.Daemon{
		PeerList: []api.Peer{aPeer("10.0.0.1@tcp")},
		Refuse:   func(string) error { return peerError("", discovery.ErrBusy) },
	}
	c, _ := serve(t, d)
	err := c.DeletePeer(t.Context(), api.PeerDeletion{Primary: nid("10.0.0.1@tcp")})
	wantFault(t, err, api.CodePeerRefused, syscall.EBUSY, "failed to del primary peer")
}

// lnetctl 4.5 (1), 4.11 (3)
func TestSetHealth(t *testing.T) {
	d := &controltest.Daemon{
		NetList:  []api.Net{{Net: tcp, NIs: []api.NI{{NID: nid("10.0.0.1@tcp")}}}},
		PeerList: []api.Peer{aPeer("10.0.0.2@tcp")},
	}
	c, _ := serve(t, d)
	for _, r := range []api.HealthChange{{NID: nid("10.0.0.1@tcp"), Value: new(500)}, {All: true, Value: new(-7)}, {All: true, Value: new(5000)}} {
		if err := c.SetNIHealth(t.Context(), r); err != nil {
			t.Error(err)
		}
	}
	if err := c.SetPeerHealth(t.Context(), api.HealthChange{NID: nid("10.0.0.2@tcp"), Value: new(1)}); err != nil {
		t.Error(err)
	}
	wantDone(t, d, "SetNIHealth 10.0.0.1@tcp 500", "SetNIHealth  0", "SetNIHealth  1000", "SetPeerHealth 10.0.0.2@tcp 1")
	err := c.SetNIHealth(t.Context(), api.HealthChange{NID: nid("10.0.0.9@tcp"), Value: new(0)})
	wantFault(t, err, api.CodeNIUnknown, syscall.ENOENT, "cannot find NI")
	err = c.SetPeerHealth(t.Context(), api.HealthChange{NID: nid("10.0.0.9@tcp"), Value: new(0)})
	wantFault(t, err, api.CodePeerUnknown, syscall.ENOENT, "cannot find peer")
	for _, r := range []api.HealthChange{{}, {All: true, NID: nid("10.0.0.1@tcp")}} {
		wantFault(t, c.SetNIHealth(t.Context(), r), api.CodeRequestInvalid, syscall.EINVAL, "either a NID or all is needed")
	}
}

// TestDiscover checks that 0@lo is left out of the NIDs, because other nodes cannot use it, and
// that a failed target does not stop the next one.
func TestDiscover(t *testing.T) {
	d := &controltest.Daemon{DiscoverFunc: func(ctx context.Context, n lnet.NID, force bool) (api.Peer, error) {
		if _, bounded := ctx.Deadline(); !bounded || !force {
			return api.Peer{}, errors.New("no bound, or no force")
		}
		if n.IsLoopback() {
			return aPeer("10.0.0.1@tcp", "0@lo", "10.1.0.1@tcp1"), nil
		}
		return api.Peer{}, peerError("", discovery.ErrTimedOut)
	}}
	c, _ := serve(t, d)
	got, err := c.Discover(t.Context(), api.DiscoverRequest{NIDs: []string{"10.0.0.9@tcp", "0@lo"}, Force: true})
	if err != nil || len(got) != 2 {
		t.Fatal(err, got)
	}
	if e := got[0].Error; e == nil || e.Code != api.CodeDiscoverFailed || e.Errno != -5 ||
		e.Text != "failed to discover 10.0.0.9@tcp: Input/output error" || e.Remedy == "" {
		t.Errorf("%+v", got[0])
	}
	want := api.PingResult{
		Target: "0@lo", Primary: nid("10.0.0.1@tcp"), MultiRail: true, PID: lnet.PIDLustre,
		NIDs: nids("10.0.0.1@tcp", "10.1.0.1@tcp1"),
	}
	if diff := cmp.Diff(want, got[1], sameNID); diff != "" {
		t.Error(diff)
	}
}
