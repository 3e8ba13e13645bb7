//go:build o2ib && cgo

package matrix

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnet"
)

// The file that LNETD_TEST_MATRIX_CALLS names contains the NIDs to which the kernel must connect.
// The test removes the file when the connections are no longer needed.
const callsFile = "LNETD_TEST_MATRIX_CALLS"

// answerer is a node to which kernels connect.
type answerer struct {
	*peer
	listener verbs.ID
	answer   func(n int, m *protocol.Message) (accept bool, private []byte)

	mu       sync.Mutex // guards the rest
	together int        // requests to receive before the first is answered
	requests []protocol.Message
	waiting  []verbs.ID // that wait for the answer to the last of them
	accepted []*conn
	times    []time.Time // of requests
}

func newAnswerer(t *testing.T, answer func(a *answerer, n int, m *protocol.Message) (bool, []byte)) *answerer {
	t.Helper()
	a := &answerer{}
	a.answer = func(n int, m *protocol.Message) (bool, []byte) { return answer(a, n, m) }
	a.peer = newPeerThat(t, a.asked)
	a.silent = true
	var err error
	a.listener, err = a.channel.Listen(netip.AddrPortFrom(a.self.IP(), service), 16)
	a.check(err)
	return a
}

func (a *answerer) asked(e *verbs.Event) {
	var m protocol.Message
	if _, err := m.Decode(e.Private[:e.PrivateLen], protocol.Check); err != nil {
		a.t.Error(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests, a.times, a.waiting = append(a.requests, m), append(a.times, time.Now()), append(a.waiting, e.ID)
	if len(a.requests) < a.together {
		return
	}
	for k, id := range a.waiting {
		a.reply(id, len(a.requests)-len(a.waiting)+k+1)
	}
	a.waiting = nil
}

// reply answers the nth request, counted from 1. a.mu is held.
func (a *answerer) reply(id verbs.ID, n int) {
	m := &a.requests[n-1]
	accept, private := a.answer(n, m)
	if !accept {
		_ = id.Reject(private)
		id.Destroy()
		return
	}
	c := newConn(a.peer, id)
	c.ack.Version, c.ack.SrcStamp = m.Version, m.SrcStamp
	a.accepted = append(a.accepted, c)
	if err := id.Accept(verbs.ConnParam{Private: private, Retries: 5, RNRRetries: 6}); err != nil {
		a.t.Error(err)
	}
}

// accepting accepts with a CONNACK that spoil may change.
func accepting(spoil func(ack *protocol.Message)) func(a *answerer, n int, m *protocol.Message) (bool, []byte) {
	return func(a *answerer, _ int, m *protocol.Message) (bool, []byte) {
		ack := protocol.Message{
			Version: m.Version, Type: protocol.ConnAck, Src: a.self, SrcStamp: stamp, Dst: m.Src, DstStamp: m.SrcStamp, Params: m.Params,
		}
		spoil(&ack)
		return true, a.encoded(&ack, little)
	}
}

// rejecting rejects the first request, and ends the test at the second one.
func rejecting(r protocol.Reject) func(a *answerer, n int, m *protocol.Message) (bool, []byte) {
	r.Stamp = stamp
	if r.Version == 0 {
		r.Version = protocol.V2
	}
	return func(_ *answerer, n int, m *protocol.Message) (bool, []byte) {
		if n > 1 {
			r = protocol.Reject{Version: m.Version, Why: protocol.NoResources, Stamp: stamp, Limits: r.Limits}
		}
		return false, r.Append(nil, little)
	}
}

// TestAnswers checks what a kernel does when its request is rejected, for each reason: it sends another
// request with the parameters of the reject, or gives up. The table also has acceptances with invalid
// parameters.
//
// o2iblnd 6 (3), 3.7, 12.4
func TestAnswers(t *testing.T) {
	file := os.Getenv(callsFile)
	if file == "" {
		t.Skip("needs somebody who has a kernel call: " + callsFile)
	}
	limits := protocol.Params{Depth: 8, Fragments: 257, Size: protocol.MaxMessage}
	few, shallow := limits, limits
	few.Fragments, shallow.Depth = 32, 4
	again := func(m *protocol.Message, is bool) error {
		if !is {
			return fmt.Errorf("the second request is %+v", *m)
		}
		return nil
	}
	rejects := []struct {
		name   string
		reject protocol.Reject
		second func(m *protocol.Message) error // nil: no second request
	}{
		{"MSG_QUEUE_SIZE", protocol.Reject{Why: protocol.TooDeep, Limits: shallow}, func(m *protocol.Message) error { return again(m, m.Params.Depth == 4) }},
		{"RDMA_FRAGS", protocol.Reject{Why: protocol.TooManyFrag, Limits: few}, func(m *protocol.Message) error { return again(m, m.Params.Fragments == 32) }},
		{"CONN_STALE", protocol.Reject{Why: protocol.Stale, Limits: limits}, func(m *protocol.Message) error { return again(m, m.DstStamp == stamp) }},
		{"CONN_RACE", protocol.Reject{Why: protocol.RaceLost, Limits: limits}, func(m *protocol.Message) error { return again(m, m.Version == protocol.V2) }},
		{"FATAL in V1", protocol.Reject{Version: protocol.V1, Why: protocol.Fatal, Limits: limits}, func(m *protocol.Message) error { return again(m, m.Version == protocol.V1) }},
		{"FATAL", protocol.Reject{Why: protocol.Fatal, Limits: limits}, nil},
		{"NO_RESOURCES", protocol.Reject{Why: protocol.NoResources, Limits: limits}, nil},
		{"EARLY", protocol.Reject{Why: protocol.Early, Limits: limits}, nil},
	}
	var list []*answerer
	for _, row := range rejects {
		list = append(list, newAnswerer(t, rejecting(row.reject)))
	}
	wrong := newAnswerer(t, accepting(func(ack *protocol.Message) { ack.DstStamp++ }))
	fewer := newAnswerer(t, accepting(func(ack *protocol.Message) { ack.Params.Depth = 4 }))
	smaller := newAnswerer(t, accepting(func(ack *protocol.Message) { ack.Params.Fragments = 64 }))
	racing := newAnswerer(t, func(*answerer, int, *protocol.Message) (bool, []byte) {
		r := protocol.Reject{Version: protocol.V2, Why: protocol.RaceLost, Stamp: stamp, Limits: limits}
		return false, r.Append(nil, little)
	})
	awaitKernelConnections(t, file, append(list, wrong, fewer, smaller, racing)...)

	for k, row := range rejects {
		t.Run(row.name, func(t *testing.T) {
			got := list[k].receivedRequests()
			switch {
			case row.second == nil && len(got) != 1, row.second != nil && len(got) < 2:
				t.Errorf("%d requests", len(got))
			case row.second != nil:
				if err := row.second(&got[1]); err != nil {
					t.Error(err)
				}
			}
		})
	}
	t.Run("wrong answer", func(t *testing.T) { wrong.only().wantClosed() })
	for name, a := range map[string]*answerer{"4 credits": fewer, "64 fragments": smaller} {
		t.Run(name, func(t *testing.T) {
			for calls := 1; len(a.arrivals) == 0 && calls < 5; calls++ {
				awaitKernelConnections(t, file, a) // the kernel has given up before it was connected: a busy machine
			}
			if m := a.next(); m.Type != protocol.Immediate || m.LNet.Type != lnet.MsgGet {
				t.Errorf("%+v", m)
			}
		})
	}
	t.Run("CONN_RACE again and again", func(t *testing.T) {
		n := len(racing.receivedRequests())
		if n < atOnce {
			t.Fatalf("%d requests", n)
		}
		for k := atOnce; k < n; k++ {
			// Measured since the first request, so that a late observation of one request makes no
			// difference. A pause is a second. The first one is shorter, because kernels count
			// whole seconds.
			pauses := time.Duration(k - atOnce)
			if span := racing.times[k].Sub(racing.times[0]); span < pauses*time.Second/2 {
				t.Errorf("request %d comes %v after the first", k+1, span)
			}
		}
	})
}

// atOnce is the number of requests that a kernel makes without a pause (o2iblnd 12.4).
const atOnce = 11

// A kernel that is configured for 4 connections with each peer requests all of them before the
// first is established, and uses them in turn.
//
// o2iblnd 12.5
func TestConnectionsPerPeer(t *testing.T) {
	const connections = 4
	file := os.Getenv(callsFile)
	if file == "" {
		t.Skip("needs somebody who has a kernel call: " + callsFile)
	}
	a := newAnswerer(t, accepting(func(*protocol.Message) {}))
	a.mu.Lock()
	a.together = connections
	a.mu.Unlock()
	awaitKernelConnections(t, file, a, a, a, a, a)
	if n := len(a.receivedRequests()); n != connections {
		t.Fatalf("%d requests", n)
	}
	used := map[*conn]bool{}
	for len(used) < connections {
		_, on := a.nextOn()
		used[on] = true
	}
}

// only returns the single accepted connection.
func (a *answerer) only() *conn {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.accepted) != 1 {
		a.t.Fatalf("%d connections", len(a.accepted))
	}
	return a.accepted[0]
}

// receivedRequests returns the received requests.
func (a *answerer) receivedRequests() []protocol.Message {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]protocol.Message(nil), a.requests...)
}

// awaitKernelConnections makes the kernel connect to all, and waits until it has done so.
func awaitKernelConnections(t *testing.T, file string, list ...*answerer) {
	t.Helper()
	text := ""
	for _, a := range list {
		text += a.self.String() + "\n"
	}
	if err := errors.Join(os.WriteFile(file+".new", []byte(text), 0o600), os.Rename(file+".new", file)); err != nil {
		t.Fatal(err)
	}
	for over := time.Now().Add(4 * patience); ; time.Sleep(100 * time.Millisecond) {
		switch _, err := os.Stat(file); {
		case errors.Is(err, fs.ErrNotExist):
			return
		case err != nil:
			t.Fatal(err)
		case time.Now().After(over):
			t.Fatal("nobody calls")
		}
	}
}
