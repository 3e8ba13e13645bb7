package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

func itoa(n int) string { return strconv.Itoa(n) }

// fakeBackend implements the part of Backend that the tests use.
type fakeBackend struct {
	Backend
	version api.Version
	nets    []api.Net
	waiting []api.WaitingNI
	down    bool
	ping    func(ctx context.Context, to lnet.ProcessID, source lnet.NID) (api.PingResult, error)
}

func (b *fakeBackend) Version() api.Version { return b.version }

func (b *fakeBackend) Nets() []api.Net { return b.nets }

func (b *fakeBackend) Waiting() []api.WaitingNI { return b.waiting }

func (b *fakeBackend) LNetDown() bool { return b.down }

func (b *fakeBackend) Ping(ctx context.Context, to lnet.ProcessID, source lnet.NID) (api.PingResult, error) {
	return b.ping(ctx, to, source)
}

// busyBackend is a daemon on which another change is always in progress.
type busyBackend struct{ Backend }

func (busyBackend) InTurn(context.Context, func()) error { return errBusyForEver }

func (busyBackend) LNetDown() bool { return false }

var errBusyForEver = errors.New("it never is our turn")

// TestChangeWithoutATurn checks that a change that does not get its turn is refused and does
// nothing.
func TestChangeWithoutATurn(t *testing.T) {
	err := testClient(t, busyBackend{}).SetRouting(t.Context(), api.RoutingChange{})
	if f := wantFault(t, err, api.CodeBusy); f.Errno != -16 || f.Cause != errBusyForEver.Error() {
		t.Errorf("%+v", f)
	}
}

// startServer serves b on path until the test ends, and then checks that the server stops.
func startServer(t *testing.T, path string, b Backend) (stop func()) {
	t.Helper()
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- (&Server{Backend: b}).Serve(ctx, l) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}

func testClient(t *testing.T, b Backend) *client.Client {
	t.Helper()
	path := filepath.Join(testenv.SocketDir(t), "c.sock")
	startServer(t, path, b)
	c := client.New(path)
	t.Cleanup(c.Close)
	return c
}

func wantFault(t *testing.T, err error, code api.Code) *api.Fault {
	t.Helper()
	var f *api.Fault
	if !errors.As(err, &f) || f.Code != code {
		t.Fatalf("error %v, want code %s", err, code)
	}
	return f
}

func nid(t *testing.T, s string) lnet.NID {
	t.Helper()
	n, err := lnet.ParseNID(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// sameNID compares NIDs for cmp.
var sameNID = cmp.Comparer(func(a, b lnet.NID) bool { return a == b })

func TestVersion(t *testing.T) {
	want := api.Version{Program: "lnetd", Version: "v1", Go: "go1", PID: 7, Started: time.Unix(5, 0).UTC()}
	got, err := testClient(t, &fakeBackend{version: want}).Version(t.Context())
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
}

func TestNets(t *testing.T) {
	lo := api.Net{Net: lnet.MakeNet(lnet.TypeLO, 0), NIs: []api.NI{{NID: lnet.LoopbackNID, Status: "up", CPT: "[0]"}}}
	tcp := api.Net{Net: lnet.MakeNet(lnet.TypeTCP, 1), NIs: []api.NI{{
		NID: nid(t, "10.0.0.1@tcp1"), Status: "down", Interfaces: []string{"eth0"},
		Statistics: api.Statistics{Sent: 1, PutAck: api.Latency{Samples: 2, Max: 1 << 60}},
		LND:        []api.Tunable{{Name: "conns_per_peer", Value: 2}, {Name: "tos", Value: -1}},
	}}}
	waits := api.WaitingNI{Net: lnet.MakeNet(lnet.TypeTCP, 3), Interface: "eth7", Cause: "no such interface"}
	c := testClient(t, &fakeBackend{nets: []api.Net{lo, tcp}, waiting: []api.WaitingNI{waits}})
	all, err := c.NetsAndWaiting(t.Context(), "tcp3")
	if diff := cmp.Diff(api.Nets{Nets: []api.Net{}, Waiting: []api.WaitingNI{waits}}, all, sameNID); diff != "" || err != nil {
		t.Errorf("a net that waits: %v, %s", err, diff)
	}
	got, err := c.Nets(t.Context(), "")
	if diff := cmp.Diff([]api.Net{lo, tcp}, got, sameNID); diff != "" || err != nil {
		t.Error(err, diff)
	}
	got, err = c.Nets(t.Context(), "tcp1")
	if diff := cmp.Diff([]api.Net{tcp}, got, sameNID); diff != "" || err != nil {
		t.Error(err, diff)
	}
	_, err = c.Nets(t.Context(), "tcp2")
	if f := wantFault(t, err, api.CodeNetAbsent); f.Errno != -3 || f.Text != "Network is down" {
		t.Errorf("%+v", f)
	}
	_, err = c.Nets(t.Context(), "foo")
	if f := wantFault(t, err, api.CodeNetUnknown); f.Errno != -2 || f.Text != "cannot parse net" {
		t.Errorf("%+v", f)
	}
}

// TestPing checks that targets are pinged with the options of the request, that results are in order, and that a failure
// does not affect the other targets.
func TestPing(t *testing.T) {
	var mu sync.Mutex // guards asked
	var asked []string
	b := &fakeBackend{ping: func(ctx context.Context, to lnet.ProcessID, source lnet.NID) (api.PingResult, error) {
		deadline, _ := ctx.Deadline()
		left := time.Until(deadline)
		mu.Lock()
		asked = append(asked, fmt.Sprintf("%s from %s, soon %v", to, source, left <= 3*time.Second && left > 0))
		mu.Unlock()
		if to.NID.Number()&1 == 0 {
			return api.PingResult{}, fmt.Errorf("wrapped: %w", &lnd.Error{
				Driver: "d", Op: "connect", Peer: to.NID, Status: lnd.StatusRemoteDropped, Err: syscall.ECONNREFUSED,
			})
		}
		return api.PingResult{Primary: to.NID, PID: to.PID, NIDs: []lnet.NID{to.NID}}, nil
	}}
	got, err := testClient(t, b).Ping(t.Context(), api.PingRequest{
		NIDs: []string{"10.0.0.2@tcp", "7-10.0.0.3@tcp"}, Source: "10.0.0.1@tcp", Timeout: 3,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []api.PingResult{
		{Target: "10.0.0.2@tcp", Error: &api.Fault{
			Code: api.CodePingFailed, Errno: -111,
			Text:   "failed to ping 10.0.0.2@tcp: Connection refused",
			Cause:  "wrapped: d: connect 10.0.0.2@tcp: connection refused",
			Remedy: targetRemedies[syscall.ECONNREFUSED],
		}},
		{Target: "7-10.0.0.3@tcp", Primary: nid(t, "10.0.0.3@tcp"), PID: 7, NIDs: []lnet.NID{nid(t, "10.0.0.3@tcp")}},
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(sameFault), sameNID); diff != "" {
		t.Error(diff)
	}
	wantAsked := []string{
		"12345-10.0.0.2@tcp from 10.0.0.1@tcp, soon true",
		"7-10.0.0.3@tcp from 10.0.0.1@tcp, soon true",
	}
	slices.Sort(asked)
	if diff := cmp.Diff(wantAsked, asked); diff != "" {
		t.Error(diff)
	}
}

// sameFault compares the parts of faults that are sent over the socket.
func sameFault(a, b *api.Fault) bool {
	if a == nil || b == nil {
		return a == b
	}
	return reflect.DeepEqual(a.Because(nil), b.Because(nil))
}

// Given more targets than are pinged at the same time, when none answers before as many as possible are asked, then all
// are answered, and no more are asked at the same time.
func TestPingsAtOnce(t *testing.T) {
	var mu sync.Mutex // guards n and most
	n, most := 0, 0
	all := make(chan struct{})
	b := &fakeBackend{ping: func(_ context.Context, to lnet.ProcessID, _ lnet.NID) (api.PingResult, error) {
		mu.Lock()
		n++
		most = max(most, n)
		if most == api.PingsAtOnce && n == most {
			select {
			case <-all:
			default:
				close(all)
			}
		}
		mu.Unlock()
		<-all
		mu.Lock()
		n--
		mu.Unlock()
		return api.PingResult{Primary: to.NID}, nil
	}}
	var r api.PingRequest
	for k := range 2*api.PingsAtOnce + 1 {
		r.NIDs = append(r.NIDs, fmt.Sprintf("10.0.0.%d@tcp", k))
	}
	got, err := testClient(t, b).Ping(t.Context(), r)
	if err != nil || most != api.PingsAtOnce {
		t.Errorf("%d at once, %v", most, err)
	}
	for k := range got {
		if got[k].Target != r.NIDs[k] || got[k].Primary.String() != r.NIDs[k] {
			t.Errorf("result %d: %+v", k, got[k])
		}
	}
}

// lnetctl 4.12 (2)
func TestPingTimesOut(t *testing.T) {
	b := &fakeBackend{ping: func(ctx context.Context, _ lnet.ProcessID, _ lnet.NID) (api.PingResult, error) {
		<-ctx.Done()
		return api.PingResult{}, ctx.Err()
	}}
	got, err := testClient(t, b).Ping(t.Context(), api.PingRequest{NIDs: []string{"10.0.0.2@tcp"}, Timeout: 0.01})
	if err != nil {
		t.Fatal(err)
	}
	if e := got[0].Error; e == nil || e.Text != "failed to ping 10.0.0.2@tcp: Input/output error" || e.Errno != -5 ||
		e.Remedy != targetRemedies[syscall.ETIMEDOUT] {
		t.Errorf("%+v", got[0])
	}
}

// TestStopEndsPings checks that a server that stops ends the pings in progress.
func TestStopEndsPings(t *testing.T) {
	begun := make(chan struct{})
	b := &fakeBackend{ping: func(ctx context.Context, _ lnet.ProcessID, _ lnet.NID) (api.PingResult, error) {
		close(begun)
		<-ctx.Done()
		return api.PingResult{}, context.Cause(ctx)
	}}
	path := filepath.Join(testenv.SocketDir(t), "c.sock")
	stop := startServer(t, path, b)
	c := client.New(path)
	defer c.Close()
	answered := make(chan error, 1)
	go func() {
		res, err := c.Ping(context.Background(), api.PingRequest{NIDs: []string{"10.0.0.2@tcp"}})
		if err == nil && res[0].Error == nil {
			err = errors.New("the ping succeeded")
		}
		answered <- err
	}()
	<-begun
	stop()
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

func TestBadRequests(t *testing.T) {
	path := filepath.Join(testenv.SocketDir(t), "c.sock")
	startServer(t, path, &fakeBackend{})
	many := make([]string, api.PingTargetsMax+1)
	for i := range many {
		many[i] = "1.1.1.1@tcp"
	}
	tests := []struct {
		name         string
		method, path string
		body         any
		code         api.Code
	}{
		{"unknown path", http.MethodGet, "/v1/nothing", nil, api.CodeRequestInvalid},
		{"wrong method", http.MethodGet, "/v1/ping", nil, api.CodeRequestInvalid},
		{"no targets", http.MethodPost, "/v1/ping", api.PingRequest{}, api.CodeRequestInvalid},
		{"bad target", http.MethodPost, "/v1/ping", api.PingRequest{NIDs: []string{"x@"}}, api.CodeRequestInvalid},
		{"bad source", http.MethodPost, "/v1/ping", api.PingRequest{NIDs: many[:1], Source: "x@"}, api.CodeRequestInvalid},
		{"too many targets", http.MethodPost, "/v1/ping", api.PingRequest{NIDs: many}, api.CodeRequestInvalid},
		{"unknown field", http.MethodPost, "/v1/ping", map[string]int{"frob": 1}, api.CodeRequestInvalid},
		{"wrong type", http.MethodPost, "/v1/ping", []int{1}, api.CodeRequestInvalid},
		{"too long", http.MethodPost, "/v1/ping", api.PingRequest{Source: strings.Repeat("x", requestBodyMax)}, api.CodeRequestInvalid},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			body, err := json.Marshal(tt.body)
			if err != nil {
				t.Fatal(err)
			}
			var got api.Refusal
			resp := request(t, path, tt.method, tt.path, string(body))
			if err := json.Unmarshal([]byte(resp.body), &got); err != nil || got.Error == nil || got.Error.Code != tt.code {
				t.Errorf("%+v, %v", resp, err)
			}
		})
	}
}

// TestTooManyAtOnce checks that the server refuses requests above its limit. Pings, which may take
// long, do not count against requests that are answered at once.
func TestTooManyAtOnce(t *testing.T) {
	release := make(chan struct{})
	var begun = make(chan struct{}, maxRequests)
	c := testClient(t, &fakeBackend{ping: func(context.Context, lnet.ProcessID, lnet.NID) (api.PingResult, error) {
		begun <- struct{}{}
		<-release
		return api.PingResult{}, nil
	}})
	done := make(chan error, maxRequests)
	for range maxRequests {
		go func() {
			_, err := c.Ping(context.Background(), api.PingRequest{NIDs: []string{"10.0.0.2@tcp"}})
			done <- err
		}()
	}
	for range maxRequests {
		<-begun
	}
	_, err := c.Ping(t.Context(), api.PingRequest{NIDs: []string{"10.0.0.2@tcp"}})
	if f := wantFault(t, err, api.CodeBusy); f.Errno != -16 {
		t.Errorf("errno %d, want -16", f.Errno)
	}
	if _, err := c.Version(t.Context()); err != nil {
		t.Errorf("version meanwhile: %v", err)
	}
	close(release)
	for range maxRequests {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
