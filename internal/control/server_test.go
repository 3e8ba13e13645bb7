package control

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

func itoa(n int) string { return strconv.Itoa(n) }

// fakeBackend is a daemon of the test's making that can do no more than this.
type fakeBackend struct {
	Backend
	version Version
	nets    []Net
	ping    func(ctx context.Context, to lnet.ProcessID, source lnet.NID) (PingResult, error)
}

func (b *fakeBackend) Version() Version { return b.version }
func (b *fakeBackend) Nets() []Net      { return b.nets }
func (b *fakeBackend) Ping(ctx context.Context, to lnet.ProcessID, source lnet.NID) (PingResult, error) {
	return b.ping(ctx, to, source)
}

// busyBackend is a daemon that somebody else changes all the time.
type busyBackend struct{ Backend }

func (busyBackend) InTurn(context.Context, func()) error { return errBusyForEver }

var errBusyForEver = errors.New("it never is our turn")

// A change that has no turn is refused, and does nothing.
func TestChangeWithoutATurn(t *testing.T) {
	err := testClient(t, busyBackend{}).SetRouting(t.Context(), RoutingChange{})
	if f := wantFault(t, err, CodeBusy); f.Errno != -16 || f.Cause != errBusyForEver.Error() {
		t.Errorf("%+v", f)
	}
}

// startServer serves b on path until the test ends and checks that the server
// then stops.
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

func testClient(t *testing.T, b Backend) *Client {
	t.Helper()
	path := t.TempDir() + "/c.sock"
	startServer(t, path, b)
	c := NewClient(path)
	t.Cleanup(c.Close)
	return c
}

func wantFault(t *testing.T, err error, code Code) *Fault {
	t.Helper()
	var f *Fault
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

// sameNID lets cmp compare NIDs.
var sameNID = cmp.Comparer(func(a, b lnet.NID) bool { return a == b })

func TestVersion(t *testing.T) {
	want := Version{Program: "lnetd", Version: "v1", Go: "go1", PID: 7, Started: time.Unix(5, 0).UTC()}
	got, err := testClient(t, &fakeBackend{version: want}).Version(t.Context())
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
}

func TestNets(t *testing.T) {
	lo := Net{Net: lnet.MakeNet(lnet.TypeLO, 0), NIs: []NI{{NID: lnet.LoopbackNID, Status: "up", CPT: "[0]"}}}
	tcp := Net{Net: lnet.MakeNet(lnet.TypeTCP, 1), NIs: []NI{{
		NID: nid(t, "10.0.0.1@tcp1"), Status: "down", Interfaces: []string{"eth0"},
		Statistics: Statistics{Sent: 1, PutAck: Latency{Samples: 2, Max: 1 << 60}},
		LND:        []Tunable{{"conns_per_peer", 2}, {"tos", -1}},
	}}}
	c := testClient(t, &fakeBackend{nets: []Net{lo, tcp}})
	got, err := c.Nets(t.Context(), "")
	if diff := cmp.Diff([]Net{lo, tcp}, got, sameNID); diff != "" || err != nil {
		t.Error(err, diff)
	}
	got, err = c.Nets(t.Context(), "tcp1")
	if diff := cmp.Diff([]Net{tcp}, got, sameNID); diff != "" || err != nil {
		t.Error(err, diff)
	}
	_, err = c.Nets(t.Context(), "tcp2")
	if f := wantFault(t, err, CodeNetAbsent); f.Errno != -3 || f.Text != "Network is down" {
		t.Errorf("%+v", f)
	}
	_, err = c.Nets(t.Context(), "foo")
	if f := wantFault(t, err, CodeNetUnknown); f.Errno != -2 || f.Text != "cannot parse net" {
		t.Errorf("%+v", f)
	}
}

// Targets are pinged in order with what the request says; a failure does not
// stop the next.
func TestPing(t *testing.T) {
	var asked []string
	b := &fakeBackend{ping: func(ctx context.Context, to lnet.ProcessID, source lnet.NID) (PingResult, error) {
		deadline, _ := ctx.Deadline()
		left := time.Until(deadline)
		asked = append(asked, fmt.Sprintf("%s from %s, soon %v", to, source, left <= 3*time.Second && left > 0))
		if to.NID.Number()&1 == 0 {
			return PingResult{}, fmt.Errorf("wrapped: %w", &lnd.Error{
				Driver: "d", Op: "connect", Peer: to.NID, Status: lnd.StatusRemoteDropped, Err: syscall.ECONNREFUSED,
			})
		}
		return PingResult{Primary: to.NID, PID: to.PID, NIDs: []lnet.NID{to.NID}}, nil
	}}
	got, err := testClient(t, b).Ping(t.Context(), PingRequest{
		NIDs: []string{"10.0.0.2@tcp", "7-10.0.0.3@tcp"}, Source: "10.0.0.1@tcp", Timeout: 3,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []PingResult{
		{Target: "10.0.0.2@tcp", Error: &Fault{
			Code: CodePingFailed, Errno: -111,
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
	if diff := cmp.Diff(wantAsked, asked); diff != "" {
		t.Error(diff)
	}
}

// sameFault compares what goes over the socket.
func sameFault(a, b *Fault) bool {
	if a == nil || b == nil {
		return a == b
	}
	x, y := *a, *b
	x.err, y.err = nil, nil
	return x == y
}

// lnetctl 4.12 (2)
func TestPingTimesOut(t *testing.T) {
	b := &fakeBackend{ping: func(ctx context.Context, _ lnet.ProcessID, _ lnet.NID) (PingResult, error) {
		<-ctx.Done()
		return PingResult{}, ctx.Err()
	}}
	got, err := testClient(t, b).Ping(t.Context(), PingRequest{NIDs: []string{"10.0.0.2@tcp"}, Timeout: 0.01})
	if err != nil {
		t.Fatal(err)
	}
	if e := got[0].Error; e == nil || e.Text != "failed to ping 10.0.0.2@tcp: Connection timed out" || e.Errno != -110 {
		t.Errorf("%+v", got[0])
	}
}

// A server that stops ends the pings under way.
func TestStopEndsPings(t *testing.T) {
	begun := make(chan struct{})
	b := &fakeBackend{ping: func(ctx context.Context, _ lnet.ProcessID, _ lnet.NID) (PingResult, error) {
		close(begun)
		<-ctx.Done()
		return PingResult{}, context.Cause(ctx)
	}}
	path := t.TempDir() + "/c.sock"
	stop := startServer(t, path, b)
	c := NewClient(path)
	defer c.Close()
	answered := make(chan error, 1)
	go func() {
		res, err := c.Ping(context.Background(), PingRequest{NIDs: []string{"10.0.0.2@tcp"}})
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
	c := testClient(t, &fakeBackend{})
	many := make([]string, PingTargetsMax+1)
	for i := range many {
		many[i] = "1.1.1.1@tcp"
	}
	tests := []struct {
		name         string
		method, path string
		body         any
		code         Code
	}{
		{"unknown path", http.MethodGet, "/v1/nothing", nil, CodeRequestInvalid},
		{"wrong method", http.MethodGet, "/v1/ping", nil, CodeRequestInvalid},
		{"no targets", http.MethodPost, "/v1/ping", PingRequest{}, CodeRequestInvalid},
		{"bad target", http.MethodPost, "/v1/ping", PingRequest{NIDs: []string{"x@"}}, CodeRequestInvalid},
		{"bad source", http.MethodPost, "/v1/ping", PingRequest{NIDs: many[:1], Source: "x@"}, CodeRequestInvalid},
		{"too many targets", http.MethodPost, "/v1/ping", PingRequest{NIDs: many}, CodeRequestInvalid},
		{"unknown field", http.MethodPost, "/v1/ping", map[string]int{"frob": 1}, CodeRequestInvalid},
		{"wrong type", http.MethodPost, "/v1/ping", []int{1}, CodeRequestInvalid},
		{"too long", http.MethodPost, "/v1/ping", PingRequest{Source: strings.Repeat("x", requestBodyMax)}, CodeRequestInvalid},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wantFault(t, c.call(t.Context(), ReplyPatience, tt.method, tt.path, tt.body, nil), tt.code)
		})
	}
}

// The server turns clients away that ask too much at once. Pings, which may
// wait for long, do not take the places of what is answered at once.
func TestTooManyAtOnce(t *testing.T) {
	release := make(chan struct{})
	var begun = make(chan struct{}, requestsAtOnce)
	c := testClient(t, &fakeBackend{ping: func(context.Context, lnet.ProcessID, lnet.NID) (PingResult, error) {
		begun <- struct{}{}
		<-release
		return PingResult{}, nil
	}})
	done := make(chan error, requestsAtOnce)
	for range requestsAtOnce {
		go func() {
			_, err := c.Ping(context.Background(), PingRequest{NIDs: []string{"10.0.0.2@tcp"}})
			done <- err
		}()
	}
	for range requestsAtOnce {
		<-begun
	}
	_, err := c.Ping(t.Context(), PingRequest{NIDs: []string{"10.0.0.2@tcp"}})
	if f := wantFault(t, err, CodeBusy); f.Errno != -16 {
		t.Errorf("errno %d, want -16", f.Errno)
	}
	if _, err := c.Version(t.Context()); err != nil {
		t.Errorf("version meanwhile: %v", err)
	}
	close(release)
	for range requestsAtOnce {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
