package inproc

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/transport"
)

var broken = &lnd.Error{Driver: "test", Op: "send", Status: lnd.StatusRemoteError, Err: lnd.ErrDisconnected}

// hdrOfThere is the hdr_data of messages from the TM at address there.
const hdrOfThere = 7<<52 | 35

// message is the PUT event of a message from the TM at address there.
func message(off, n int, unlinked bool) portals.Event {
	return portals.Event{
		Type: portals.EventPut, Unlinked: unlinked, Offset: off, Length: n, HdrData: hdrOfThere,
		Source:    lnet.ProcessID{NID: there.NID, PID: there.PID},
		Initiator: lnet.ProcessID{NID: lnet.NIDFromNumber(5<<16, 9), PID: there.PID}, // another NID of its node
	}
}

func with(e portals.Event, edit func(e *portals.Event)) portals.Event {
	edit(&e)
	return e
}

// completionFields has the fields of a completion that these tests check.
type completionFields struct {
	final          bool
	errno          syscall.Errno
	length, offset int
	sender         transport.Address
}

// The table of transport 6.9, row by row, and the additional rules of this implementation.
//
// transport-tests G (65)-(67), I (82)-(83)
// transport 6.5 (3)-(4), 6.9 table, 6.9 (1)-(2), 6.10
func TestInterpretEvents(t *testing.T) {
	const (
		ack   = portals.EventAck
		send  = portals.EventSend
		reply = portals.EventReply
	)
	fail := func(e *portals.Event) { e.Err = broken }
	noSender := func(e *portals.Event) { e.HdrData = 0 }
	data := func(n int, unlinked bool) portals.Event {
		return portals.Event{Type: reply, Length: n, Unlinked: unlinked}
	}
	ended := []completionFields{{final: true, errno: syscall.ECANCELED}}
	eio := []completionFields{{final: true, errno: syscall.EIO}}
	done := []completionFields{{final: true}}
	for _, c := range []struct {
		name   string
		queues []transport.QueueType
		events []portals.Event
		cancel bool // cancel before the last event
		want   []completionFields
	}{
		{"ack", all, []portals.Event{{Type: ack}}, false, nil},
		{"ack that unlinks", all, []portals.Event{{Type: ack, Unlinked: true}}, false, nil},
		{"canceled", all, []portals.Event{{Type: portals.EventUnlink, Unlinked: true}}, true, ended},
		{"given up by the node", all, []portals.Event{{Type: portals.EventUnlink, Unlinked: true}}, false,
			[]completionFields{{final: true, errno: syscall.ETIMEDOUT}}},
		{"peer restarted", all, []portals.Event{{Type: portals.EventUnlink, Unlinked: true, Err: node.ErrRestarted}}, false, eio},

		{"message", recv, []portals.Event{message(3, 5, false)}, false, []completionFields{{length: 5, offset: 3, sender: there}}},
		{"last message", recv, []portals.Event{message(3, 5, true)}, false, []completionFields{{final: true, length: 5, offset: 3, sender: there}}},
		{"messages, canceled", recv, []portals.Event{message(0, 5, false), {Type: portals.EventUnlink, Unlinked: true}}, true,
			append([]completionFields{{length: 5, sender: there}}, ended...)},
		{"message, canceled while the next came", recv, []portals.Event{message(0, 5, false),
			with(message(5, 5, true), func(e *portals.Event) { e.Err = portals.ErrTimedOut })}, true,
			append([]completionFields{{length: 5, sender: there}}, ended...)},
		{"message, then one that fails", recv, []portals.Event{message(0, 5, false), with(message(5, 5, true), fail)}, false,
			append([]completionFields{{length: 5, sender: there}}, eio...)},
		{"message that fails", recv, []portals.Event{with(message(0, 5, false), fail)}, false, []completionFields{{errno: syscall.EIO}}},
		{"no sender", recv, []portals.Event{with(message(3, 5, false), noSender)}, false, []completionFields{{length: 5, offset: 3}}},
		{"no sender, last", recv, []portals.Event{with(message(3, 5, true), noSender)}, false, []completionFields{{final: true, errno: syscall.EPROTO}}},
		{"sender without number", recv, []portals.Event{with(message(0, 5, true), func(e *portals.Event) { e.HdrData = 35 })}, false,
			[]completionFields{{final: true, errno: syscall.EPROTO}}},
		{"sender without portal", recv, []portals.Event{with(message(0, 5, true), func(e *portals.Event) { e.HdrData = 7<<52 | 64 })}, false,
			[]completionFields{{final: true, errno: syscall.EPROTO}}},

		{"filled", passiveRecv, []portals.Event{with(message(0, 5, true), noSender)}, false, []completionFields{{final: true, length: 5}}},
		{"filled in part", passiveRecv, []portals.Event{with(message(0, 5, true), fail)}, false, eio},
		{"fetched from", passiveSend, []portals.Event{{Type: portals.EventGet, Unlinked: true, Length: 5}}, false, done},
		{"not fetched from", passiveSend, []portals.Event{{Type: portals.EventGet, Unlinked: true, Err: broken}}, false, eio},

		{"sent", senders, []portals.Event{{Type: send, Unlinked: true, Length: 100, Offset: 7}}, false, done},
		{"not sent", senders, []portals.Event{{Type: send, Unlinked: true, Err: broken}}, false, eio},
		{"canceled before it was sent", senders, []portals.Event{{Type: send, Unlinked: true, Err: portals.ErrCanceled}}, true, ended},
		{"canceled before it was sent", senders, []portals.Event{{Type: send, Unlinked: true, Err: portals.ErrCanceled}}, false,
			[]completionFields{{final: true, errno: syscall.EHOSTUNREACH}}},
		{"canceled while it was sent", senders, []portals.Event{{Type: send, Unlinked: true, Err: portals.ErrTimedOut}}, true, ended},
		{"ends later", notFetcher, []portals.Event{{Type: send}, {Type: portals.EventGet}}, false, nil},
		{"timed out", senders, []portals.Event{{Type: send, Unlinked: true, Err: portals.ErrTimedOut}}, false,
			[]completionFields{{final: true, errno: syscall.ETIMEDOUT}}},

		{"asked", fetcher, []portals.Event{{Type: send}}, false, nil},
		{"asked, answered", fetcher, []portals.Event{{Type: send}, data(5, true)}, false, []completionFields{{final: true, length: 5}}},
		{"answered", fetcher, []portals.Event{data(5, false)}, false, nil},
		{"answered, asked", fetcher, []portals.Event{data(5, false), {Type: send, Unlinked: true}}, false, []completionFields{{final: true, length: 5}}},
		{"answered badly, asked", fetcher, []portals.Event{with(data(5, false), fail), {Type: send, Unlinked: true}}, false, eio},
		{"answered, not asked", fetcher, []portals.Event{data(5, false), {Type: send, Unlinked: true, Err: broken}}, false, eio},
		{"answered badly", fetcher, []portals.Event{{Type: send}, with(data(5, true), fail)}, false, eio},
		{"canceled while asking", fetcher, []portals.Event{{Type: send, Unlinked: true, Err: portals.ErrTimedOut}}, true, ended},
		{"canceled while asking, no status", fetcher, []portals.Event{{Type: send, Unlinked: true}}, true, ended},
		{"not asked", fetcher, []portals.Event{{Type: send, Err: broken}, {Type: portals.EventUnlink, Unlinked: true}}, false, eio},
		{"not asked, answered", fetcher, []portals.Event{{Type: send, Err: broken}, data(5, true)}, false, eio},
		{"not asked at last", fetcher, []portals.Event{{Type: send, Unlinked: true, Err: broken}}, false, eio},
	} {
		for _, q := range c.queues {
			t.Run(fmt.Sprint(c.name, " ", q), func(t *testing.T) {
				s := newStage(t)
				b := s.buffer(100)
				d := s.submit(op(q, b))
				for i, e := range c.events {
					if c.cancel && i == len(c.events)-1 {
						s.submit(transport.Op{Cancel: true, Buffer: b, Sequence: 1})
					}
					d.fire(e)
				}
				var got []completionFields
				for _, c := range s.reap() {
					if c.Token != b.token || c.Sequence != 1 || c.Time.IsZero() || c.Down {
						t.Errorf("completion %+v", c)
					}
					got = append(got, completionFields{c.Final, errnoIn(t, c.Err), c.Length, c.Offset, c.Sender})
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("completions %+v, want %+v", got, c.want)
				}
				over := len(c.want) > 0 && c.want[len(c.want)-1].final
				if err := b.Deregister(); over != (err == nil) {
					t.Errorf("the buffer is free: %v", err)
				}
				unlinks := 0
				if c.cancel {
					unlinks++
				}
				if c.events[0].Type == send && !c.events[0].Unlinked && c.events[0].Err != nil {
					unlinks++ // the rest of a GET that has failed
				}
				if len(s.node.unlinked) != unlinks {
					t.Errorf("%d descriptors unlinked, want %d", len(s.node.unlinked), unlinks)
				}
			})
		}
	}
}

var (
	recv        = []transport.QueueType{transport.MsgRecv}
	passiveRecv = []transport.QueueType{transport.PassiveBulkRecv}
	passiveSend = []transport.QueueType{transport.PassiveBulkSend}
	senders     = []transport.QueueType{transport.MsgSend, transport.ActiveBulkSend}
	fetcher     = []transport.QueueType{transport.ActiveBulkRecv}
	notFetcher  = []transport.QueueType{
		transport.MsgSend, transport.PassiveBulkSend, transport.ActiveBulkSend,
	}
	all = []transport.QueueType{
		transport.MsgRecv, transport.MsgSend, transport.PassiveBulkRecv, transport.PassiveBulkSend,
		transport.ActiveBulkRecv, transport.ActiveBulkSend,
	}
)

// A cancellation ends the op that it identifies, even during its Submit, and no other.
//
// transport 6.10
func TestCancel(t *testing.T) {
	s := newStage(t)
	s.node.onUnlink = (*descriptor).unlink
	b := s.buffer(100)
	cancel := func(sequence uint32) {
		s.submit(transport.Op{Cancel: true, Buffer: b, Sequence: sequence})
	}
	s.node.add(portals.MD{}) // ensures that n.last exists
	cancel(1)                // of an op that was never accepted
	s.submit(op(transport.MsgRecv, b))
	cancel(2)
	if len(s.node.unlinked) != 0 {
		t.Error("another op is canceled")
	}
	cancel(1)
	if c := s.one(); !c.Final || !errors.Is(c.Err, syscall.ECANCELED) {
		t.Errorf("%+v", c)
	}
	cancel(1)
	if len(s.node.unlinked) != 1 {
		t.Error("what is over is canceled")
	}

	// While the node has the op, but has not yet returned its descriptor.
	s.node.onPut = func(*descriptor) {
		cancel(1)
		if len(s.node.unlinked) != 1 {
			t.Error("which descriptor?")
		}
	}
	s.submit(op(transport.MsgSend, b))
	if c := s.one(); !c.Final || !errors.Is(c.Err, syscall.ECANCELED) || len(s.node.unlinked) != 2 {
		t.Errorf("%+v", c)
	}

	// An op that has ended before its call returns, with the buffer in use again.
	s.node.onPut = func(d *descriptor) {
		s.node.onPut = nil
		d.fire(portals.Event{Type: portals.EventSend, Unlinked: true})
		again := op(transport.MsgSend, b)
		again.Sequence = 2
		s.submit(again)
	}
	first := s.submit(op(transport.MsgSend, b))
	if c := s.one(); c.Err != nil || c.Sequence != 1 {
		t.Errorf("%+v", c)
	}
	cancel(2)
	if last := s.node.unlinked[len(s.node.unlinked)-1]; last != first.handle {
		t.Errorf("unlinked %v, want the second op's %v", last, first.handle)
	}
}

// The state of a fetch is reset at its end.
//
// transport 6.9 table
func TestFetchAfterFetch(t *testing.T) {
	s := newStage(t)
	b := s.buffer(100)
	first := s.submit(op(transport.ActiveBulkRecv, b))
	first.fire(portals.Event{Type: portals.EventReply, Length: 5})
	first.fire(portals.Event{Type: portals.EventSend, Unlinked: true})
	second := s.submit(op(transport.ActiveBulkRecv, b))
	second.fire(portals.Event{Type: portals.EventSend, Unlinked: true})
	if cs := s.reap(); len(cs) != 2 || cs[0].Err != nil || cs[0].Length != 5 || !errors.Is(cs[1].Err, syscall.ECANCELED) || cs[1].Length != 0 {
		t.Errorf("%+v", cs)
	}
}

// Every error of a node, a driver or a context has one errno, which errors.Is finds first.
//
// transport 3.16
func TestErrnos(t *testing.T) {
	driver := func(s lnd.Status, err error) error {
		return &lnd.Error{Driver: "test", Op: "send", Status: s, Err: err}
	}
	unknown := errors.New("unknown")
	for _, c := range []struct {
		err  error
		want syscall.Errno
	}{
		{node.ErrUnreachable, syscall.EHOSTUNREACH},
		{node.ErrTimedOut, syscall.ETIMEDOUT},
		{node.ErrCanceled, syscall.ECANCELED},
		{node.ErrClosed, syscall.ESHUTDOWN},
		{node.ErrInvalid, syscall.EINVAL},
		{node.ErrNotFound, syscall.ENOENT},
		{node.ErrRestarted, syscall.EIO},
		{node.ErrFailNID, syscall.EIO},
		{node.ErrInHandler, syscall.EDEADLK},
		{node.ErrNotMade, syscall.EINVAL},
		{node.ErrPortalClass, syscall.EPERM},
		{node.ErrTaken, syscall.EADDRINUSE},
		{fmt.Errorf("to a large NID: %w: %w", lnd.ErrLargeNID, node.ErrUnreachable), syscall.EHOSTUNREACH},
		{driver(lnd.StatusLocalError, lnd.ErrClosed), syscall.ESHUTDOWN},
		{driver(lnd.StatusRemoteDropped, lnd.ErrUnreachable), syscall.EHOSTUNREACH},
		{driver(lnd.StatusLocalInterrupt, lnd.ErrRecalled), syscall.EHOSTUNREACH},
		{driver(lnd.StatusNetworkTimeout, lnd.ErrTimeout), syscall.ETIMEDOUT},
		{driver(lnd.StatusRemoteError, lnd.ErrProtocol), syscall.EIO},
		{driver(lnd.StatusRemoteError, lnd.ErrDisconnected), syscall.EIO},
		{driver(lnd.StatusLocalInterrupt, unknown), syscall.EIO},
		{driver(lnd.StatusLocalDropped, unknown), syscall.EIO},
		{driver(lnd.StatusLocalAborted, unknown), syscall.EIO},
		{driver(lnd.StatusLocalNoRoute, unknown), syscall.EHOSTUNREACH},
		{driver(lnd.StatusLocalError, unknown), syscall.EIO},
		{driver(lnd.StatusLocalTimeout, unknown), syscall.ETIMEDOUT},
		{driver(lnd.StatusRemoteError, unknown), syscall.EIO},
		{driver(lnd.StatusRemoteDropped, syscall.ECONNREFUSED), syscall.EHOSTUNREACH},
		{driver(lnd.StatusRemoteTimeout, unknown), syscall.ETIMEDOUT},
		{driver(lnd.StatusNetworkTimeout, unknown), syscall.ETIMEDOUT},
		{unknown, syscall.EIO},
	} {
		err := wrap(fmt.Errorf("put: %w", c.err))
		if got := errnoIn(t, err); got != c.want || !errors.Is(err, c.err) || err.Error() != "put: "+c.err.Error() {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
	if wrap(nil) != nil {
		t.Error("nil is an error")
	}
}
