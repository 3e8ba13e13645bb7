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
)

// While kernels are to call, addresses are in the file that LNETD_TEST_MATRIX_CALLS names; who
// has had them called takes the file away.
const callsFile = "LNETD_TEST_MATRIX_CALLS"

// answerer is a node that kernels call.
type answerer struct {
	*peer
	listener verbs.ID
	answer   func(n int, m *protocol.Message) (accept bool, private []byte)

	mu       sync.Mutex // guards the rest
	requests []protocol.Message
	accepted []verbs.ID
}

func newAnswerer(t *testing.T, answer func(a *answerer, n int, m *protocol.Message) (bool, []byte)) *answerer {
	t.Helper()
	a := &answerer{}
	a.answer = func(n int, m *protocol.Message) (bool, []byte) { return answer(a, n, m) }
	a.peer = newPeerThat(t, a.asked)
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
	a.requests = append(a.requests, m)
	accept, private := a.answer(len(a.requests), &m)
	if !accept {
		_ = e.ID.Reject(private)
		e.ID.Destroy()
		return
	}
	newConn(a.peer, e.ID)
	a.accepted = append(a.accepted, e.ID)
	if err := e.ID.Accept(verbs.ConnParam{Private: private, Retries: 5, RNRRetries: 6}); err != nil {
		a.t.Error(err)
	}
}

// rejecting rejects the first call, and ends the story at the second one.
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

// What a kernel does when it calls and is rejected, for each reason: it calls again, with what it was
// told, or leaves it. And when it is accepted with words that are wrong.
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
		second func(m *protocol.Message) error // nil: there is none
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
	wrong := newAnswerer(t, func(a *answerer, _ int, m *protocol.Message) (bool, []byte) {
		ack := protocol.Message{
			Version: m.Version, Type: protocol.ConnAck, Src: a.self, SrcStamp: stamp, Dst: m.Src, DstStamp: m.SrcStamp + 1, Params: m.Params,
		}
		return true, a.encoded(&ack, little)
	})
	racing := newAnswerer(t, func(*answerer, int, *protocol.Message) (bool, []byte) {
		r := protocol.Reject{Version: protocol.V2, Why: protocol.RaceLost, Stamp: stamp, Limits: limits}
		return false, r.Append(nil, little)
	})
	haveCalled(t, file, append(list, wrong, racing))

	for k, row := range rejects {
		t.Run(row.name, func(t *testing.T) {
			got := list[k].heard()
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
	t.Run("wrong answer", func(t *testing.T) {
		wrong.mu.Lock()
		accepted := wrong.accepted
		wrong.mu.Unlock()
		if len(accepted) == 0 {
			t.Fatal("no request")
		}
		wrong.await(accepted[0], verbs.EventDisconnected)
	})
	t.Run("CONN_RACE again and again", func(t *testing.T) {
		if n := len(racing.heard()); n < atOnce {
			t.Errorf("%d requests", n)
		}
	})
}

// atOnce is how many requests a kernel makes without a pause (o2iblnd 12.4).
const atOnce = 11

// heard is what has been asked for.
func (a *answerer) heard() []protocol.Message {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]protocol.Message(nil), a.requests...)
}

// haveCalled asks for calls of all, and waits until they were made.
func haveCalled(t *testing.T, file string, list []*answerer) {
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
