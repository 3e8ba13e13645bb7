package server_test

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
	"github.com/lnetd/lnetd/internal/lnetd/control/server"
	"github.com/lnetd/lnetd/internal/testing/controltest"
	"github.com/lnetd/lnetd/lnet"
)

// refused returns the fault in err, which must have the given code.
func refused(t *testing.T, err error, code api.Code) *api.Fault {
	t.Helper()
	var f *api.Fault
	if !errors.As(err, &f) || f.Code != code {
		t.Fatalf("%v, want code %s", err, code)
	}
	return f
}

// TestNetworkIsDown checks that requests that need LNet are refused while it is not configured, and
// change nothing.
//
// lnetctl 4.1
func TestNetworkIsDown(t *testing.T) {
	d := &controltest.Daemon{Down: true}
	c, _ := serve(t, d)
	ctx := t.Context()
	_, nets := c.Nets(ctx, "")
	_, globals := c.Globals(ctx)
	_, whole := c.Configuration(ctx)
	_, changed := c.ChangeConfiguration(ctx, api.ConfigurationChange{Mode: api.ModeAdd})
	_, pinged := c.Ping(ctx, api.PingRequest{NIDs: []string{"10.0.0.1@tcp"}})
	for what, err := range map[string]error{
		"nets": nets, "globals": globals, "configuration": whole, "change": changed, "ping": pinged,
		"net add":  addNet(t, c, api.NetAddition{Net: tcp, Interfaces: []string{"eth0"}}),
		"peer add": c.AddPeer(ctx, api.PeerAddition{Primary: nid("10.0.0.1@tcp")}),
	} {
		if f := refused(t, err, api.CodeNetworkDown); f.Errno != -100 || f.Text != "Network is down" || f.Remedy == "" {
			t.Errorf("%s: %+v", what, f)
		}
	}
	if len(d.Done) > 0 {
		t.Errorf("done: %q", d.Done)
	}
	_, version := c.Version(ctx)
	_, clients := c.Clients(ctx)
	_, errands := c.Errands(ctx, api.Document{})
	for what, err := range map[string]error{"version": version, "clients": clients, "errands": errands, "configure": c.SetLNet(ctx, api.LNet{Configured: true})} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := c.Nets(ctx, ""); err != nil {
		t.Errorf("configured: %v", err)
	}
}

// TestLengthOfDocuments checks that documents may be longer than other requests, and that one which
// is too long is refused.
func TestLengthOfDocuments(t *testing.T) {
	d := &controltest.Daemon{}
	got := 0
	d.ChangeFunc = func(r api.ConfigurationChange) (api.ConfigurationChanged, error) {
		got = len(r.Text)
		return api.ConfigurationChanged{}, nil
	}
	c, _ := serve(t, d)
	change := func(n int) error {
		_, err := c.ChangeConfiguration(t.Context(), api.ConfigurationChange{
			Mode: api.ModeAdd, Document: api.Document{Text: strings.Repeat("x", n)},
		})
		return err
	}
	if err := change(api.DocumentMax); err != nil || got != api.DocumentMax {
		t.Errorf("%d bytes: %v", got, err)
	}
	if f := refused(t, change(api.DocumentMax+1), api.CodeConfigInvalid); f.Errno != -27 {
		t.Errorf("%+v", f)
	}
	err := addNet(t, c, api.NetAddition{IP2Nets: strings.Repeat("x", 1<<16)})
	refused(t, err, api.CodeRequestInvalid)
}

// TestProblemsOfADocument checks that the client receives each problem of a document with its
// position.
func TestProblemsOfADocument(t *testing.T) {
	want := []api.Problem{
		{File: "f", Line: 1, Column: 2, Key: "net", Text: "a", Remedy: "b"}, {File: "f", Line: 3, Text: "c"},
	}
	c, _ := serve(t, &controltest.Daemon{
		ChangeFunc: func(api.ConfigurationChange) (api.ConfigurationChanged, error) {
			return api.ConfigurationChanged{}, &api.Fault{Code: api.CodeConfigInvalid, Errno: -22, Text: "no", Problems: want}
		},
	})
	_, err := c.ChangeConfiguration(t.Context(), api.ConfigurationChange{Mode: api.ModeDelete})
	if diff := cmp.Diff(want, refused(t, err, api.CodeConfigInvalid).Problems); diff != "" {
		t.Error(diff)
	}
	_, err = c.ChangeConfiguration(t.Context(), api.ConfigurationChange{Mode: "frob"})
	refused(t, err, api.CodeRequestInvalid)
}

// TestDocumentsAreReadWhileOthersChange checks that requests which change nothing do not wait for a
// change in progress.
func TestDocumentsAreReadWhileOthersChange(t *testing.T) {
	d := &controltest.Daemon{}
	c, _ := serve(t, d)
	err := d.InTurn(t.Context(), func() {
		ctx := t.Context()
		_, planned := c.ChangeConfiguration(ctx, api.ConfigurationChange{Mode: api.ModeReplace, Dry: true})
		_, _, described := c.Described(ctx, api.Document{})
		_, errands := c.Errands(ctx, api.Document{})
		if err := errors.Join(planned, described, errands); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Error(err)
	}
}

// endsMeanwhile is a daemon whose LNet is unconfigured while a change waits for its turn.
type endsMeanwhile struct{ *controltest.Daemon }

func (d endsMeanwhile) InTurn(ctx context.Context, do func()) error {
	return d.Daemon.InTurn(ctx, func() {
		_ = d.SetLNet(ctx, api.LNet{})
		do()
	})
}

// TestNetworkEndsBeforeTheTurn: given a change that waits for its turn, when LNet is unconfigured
// before that, then the change is refused like any other.
//
// lnetctl 4.1
func TestNetworkEndsBeforeTheTurn(t *testing.T) {
	d := endsMeanwhile{&controltest.Daemon{}}
	h := (&server.Server{Backend: d}).Handler()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/routing", strings.NewReader(`{"enabled":true}`)))
	if !strings.Contains(w.Body.String(), string(api.CodeNetworkDown)) || len(d.Done) != 1 {
		t.Errorf("%s; done: %q", w.Body, d.Done)
	}
}

// TestNetsThatMakeNoSense checks that invalid requests for NIs are refused before they reach the
// daemon.
//
// lnetctl 4.2 (3)
// lnetctl 4.3 (1)
// lnetctl 4.5 (4)
func TestNetsThatMakeNoSense(t *testing.T) {
	d := &controltest.Daemon{}
	c, _ := serve(t, d)
	lo := lnet.MakeNet(lnet.TypeLO, 0)
	one := 1
	for what, err := range map[string]error{
		"interface / NID is missing":          addNet(t, c, api.NetAddition{Net: tcp}),
		"cannot parse net":                    addNet(t, c, api.NetAddition{Interfaces: []string{"eth0"}}),
		"setting @lo not allowed":             addNet(t, c, api.NetAddition{Net: lo, Interfaces: []string{"eth0"}}),
		"cannot be combined":                  addNet(t, c, api.NetAddition{NID: nid("10.0.0.1@tcp"), IP2Nets: "tcp 10.*.*.*"}),
		"a net is only valid with interfaces": addNet(t, c, api.NetAddition{Net: tcp, NID: nid("10.0.0.1@tcp")}),
		"either a net or a NID":               c.DeleteNet(t.Context(), api.NetDeletion{}),
		"setting @lo":                         c.DeleteNet(t.Context(), api.NetDeletion{NID: lnet.LoopbackNID}),
		"need their net":                      c.DeleteNet(t.Context(), api.NetDeletion{NID: nid("10.0.0.1@tcp"), Interfaces: []string{"eth0"}}),
		"nothing to set was given":            c.SetNITunables(t.Context(), api.NITunables{All: true}),
		"either a NID, a net or all":          c.SetNITunables(t.Context(), api.NITunables{LND: map[string]int64{"busy_poll": 1}}),
		"without --net option":                c.SetNITunables(t.Context(), api.NITunables{LNDTimeout: &one}),
	} {
		if f := refused(t, err, api.CodeRequestInvalid); f.Errno != -22 || !strings.Contains(f.Text, what) {
			t.Errorf("%s: %+v", what, f)
		}
	}
	refused(t, c.SetLNet(t.Context(), api.LNet{All: true}), api.CodeRequestInvalid)
	refused(t, c.SetPeerState(t.Context(), api.PeerState{State: 1}), api.CodeRequestInvalid)
	refused(t, c.SetPeerState(t.Context(), api.PeerState{NID: nid("10.0.0.9@tcp")}), api.CodePeerUnknown)
	if len(d.Done) > 0 {
		t.Errorf("done: %q", d.Done)
	}
}

// addNet adds NIs and ignores warnings.
func addNet(t *testing.T, c *client.Client, r api.NetAddition) error {
	t.Helper()
	_, err := c.AddNet(t.Context(), r)
	return err
}

// A client that prefers a minimal reply gets the changes without the configurations.
func TestMinimalReply(t *testing.T) {
	whole := api.Configuration{Routes: []api.Route{{Net: lnet.MakeNet(lnet.TypeTCP, 9), Gateway: lnet.LoopbackNID}}}
	d := &controltest.Daemon{ChangeFunc: func(api.ConfigurationChange) (api.ConfigurationChanged, error) {
		return api.ConfigurationChanged{Commands: []string{"route add"}, Before: whole, After: whole}, nil
	}}
	c, _ := serve(t, d)
	for _, minimal := range []bool{true, false} {
		done, err := c.ChangeConfiguration(t.Context(), api.ConfigurationChange{Mode: api.ModeAdd, Minimal: minimal})
		if err != nil || len(done.Commands) != 1 || (len(done.Before.Routes) == 0) != minimal || (len(done.After.Routes) == 0) != minimal {
			t.Errorf("minimal %t: %+v, %v", minimal, done, err)
		}
	}
	r := httptest.NewRequest(http.MethodPost, "/v1/configuration", strings.NewReader(`{"mode":"wrong"}`))
	r.Header.Set("Prefer", "return=minimal")
	w := httptest.NewRecorder()
	(&server.Server{Backend: d}).Handler().ServeHTTP(w, r)
	if w.Code == http.StatusOK || w.Header().Get("Preference-Applied") != "" {
		t.Errorf("status %d of a refusal, with the headers %v", w.Code, w.Header())
	}
	for prefer, applied := range map[string]string{"return=minimal": "return=minimal", "wait=1, Return=Minimal": "return=minimal", "return=representation": ""} {
		r := httptest.NewRequest(http.MethodPost, "/v1/configuration", strings.NewReader(`{"name":"d","text":"","mode":"add"}`))
		r.Header.Set("Prefer", prefer)
		w := httptest.NewRecorder()
		(&server.Server{Backend: d}).Handler().ServeHTTP(w, r)
		if got := w.Header().Get("Preference-Applied"); got != applied || strings.Contains(w.Body.String(), `"before"`) == (applied != "") {
			t.Errorf("%s: applied %q, %s", prefer, got, w.Body)
		}
	}
}

// The entries of a document are sent one after the other. If the list of peers cannot be completed, or the
// caller stops, the rest is not sent.
func TestDescribedPeers(t *testing.T) {
	d := &controltest.Daemon{DescribedFunc: func(api.Document) (api.Described, error) {
		return api.Described{
			Routes: []api.Route{{Net: lnet.MakeNet(lnet.TypeTCP, 9), Gateway: lnet.LoopbackNID, Hops: 7}}, Details: map[string]int64{"route": 1},
			Peers: []api.Peer{aPeer("10.0.0.1@tcp", "10.1.0.1@tcp1"), aPeer("10.0.0.2@tcp"), aPeer("10.0.0.3@tcp")},
		}, nil
	}}
	c, _ := serve(t, d)
	for _, most := range []int{3, 1} {
		found, peers, err := c.Described(t.Context(), api.Document{})
		if err != nil || len(found.Routes) != 1 || found.Routes[0].Hops != 7 || found.Details["route"] != 1 {
			t.Fatalf("%+v, %v", found, err)
		}
		var got []api.Peer
		for p, err := range peers {
			if err != nil {
				t.Fatal(err)
			}
			if got = append(got, p); len(got) == most {
				break
			}
		}
		want := []api.Peer{aPeer("10.0.0.1@tcp", "10.1.0.1@tcp1"), aPeer("10.0.0.2@tcp"), aPeer("10.0.0.3@tcp")}[:most]
		if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b lnet.NID) bool { return a == b })); diff != "" {
			t.Error(diff)
		}
	}
	interrupted := &failingPeers{Daemon: d}
	c, _ = serve(t, interrupted)
	_, peers, err := c.Described(t.Context(), api.Document{})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err = range peers {
		n++
	}
	if n < 2 || api.FaultOf(err).Code != api.CodeDaemonUnreachable {
		t.Errorf("%d elements, the last with %v", n, err)
	}
}

// failingPeers is a daemon that fails after it has yielded more than a page of peers.
type failingPeers struct{ *controltest.Daemon }

func (f *failingPeers) PeersOf(context.Context, []lnet.NID) iter.Seq2[api.Peer, error] {
	return func(yield func(api.Peer, error) bool) {
		for range 10_000 {
			if !yield(aPeer("10.0.0.1@tcp"), nil) {
				return
			}
		}
		yield(api.Peer{}, errors.New("the node is closed"))
	}
}
