package fuzz

import (
	"errors"
	"math"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/uplnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// uplndEntries returns one entry of each op.
func uplndEntries(f *testing.F) []protocol.Entry {
	f.Helper()
	peer := lnet.ProcessID{NID: lnetNID(f, "192.168.1.20@tcp"), PID: lnet.PIDLustre}
	entries := []protocol.Entry{
		{Op: protocol.Recall, Handle: 1<<32 | 7}, {Op: protocol.Take, Handle: 1, Length: 4096}, {Op: protocol.Done, Handle: 1},
		{Op: protocol.Wait, Handle: 1}, {Op: protocol.Refuse, Handle: 1}, {Op: protocol.Disconnect, Peer: peer},
		{Op: protocol.LinkBack, Peer: peer}, {Op: protocol.Probe, Peer: peer}, {Op: protocol.PID, Peer: peer, Cause: protocol.CauseBusy},
		{Op: protocol.Timeout, Time: uint64(50 * time.Second)},
		{Op: protocol.Sent, Handle: 1<<32 | 7}, {Op: protocol.Payload, Handle: 1, Length: 4096, Offset: 2 << 20},
		{Op: protocol.Sent, Status: lnd.StatusRemoteDropped, Cause: protocol.CauseUnreachable, Text: "no connection with the peer"},
		{Op: protocol.Withdrawn, Handle: 1}, {Op: protocol.PeerDown, Peer: peer, Status: lnd.StatusRemoteError, Time: 1},
		{Op: protocol.Lost, Peer: peer}, {Op: protocol.Restarted, Peer: peer}, {Op: protocol.Stalled, Peer: peer, Time: math.MaxInt64},
		{Op: protocol.Link, Up: true}, {Op: protocol.AllocatePID}, {Op: protocol.RegisterPID, Peer: peer},
	}
	for _, h := range lnetHeaders(f, "2001:db8::20@tcp", "192.168.1.10@tcp1") {
		entries = append(entries,
			protocol.Entry{Op: protocol.Send, Urgent: true, More: true, Vouched: true, Handle: 1<<32 | 7, Length: 4096, Peer: peer, Header: h},
			protocol.Entry{Op: protocol.Arrived, HasPayload: true, Handle: 1, Offset: 2 << 20, Peer: peer, Header: h})
	}
	return entries
}

// FuzzUplndEntry reads what lnetd or a proxy has written into its ring.
//
// UP-5, UP-6
func FuzzUplndEntry(f *testing.F) {
	for _, e := range uplndEntries(f) {
		var b [protocol.EntrySize]byte
		e.Put(&b)
		f.Add(b[:])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var in [protocol.EntrySize]byte
		copy(in[:], b)
		var order, report protocol.Entry
		noOrder, noReport := order.DecodeOrder(&in), report.DecodeReport(&in)
		switch {
		case noOrder == nil && noReport == nil:
			t.Fatalf("%v is an order and a report", order.Op)
		case noOrder == nil:
			uplndEntry(t, &in, &order, (*protocol.Entry).DecodeOrder)
		case noReport == nil:
			uplndEntry(t, &in, &report, (*protocol.Entry).DecodeReport)
		default:
			lnetNamed(t, noOrder)
			lnetNamed(t, noReport)
		}
	})
}

// uplndEntry checks an entry that was decoded from in. It is encoded to the same bytes, except for fields of
// the header that its type does not use, and wildcard NIDs.
func uplndEntry(t *testing.T, in *[protocol.EntrySize]byte, e *protocol.Entry, decode func(*protocol.Entry, *[protocol.EntrySize]byte) error) {
	t.Helper()
	remoteText(t, e.Text, protocol.MaxText)
	remoteText(t, e.Cause.Err(e.Text).Error(), protocol.MaxText)
	if e.Header.Validate() != nil || e.Header.PayloadLength > lnet.MTU || e.Time > math.MaxInt64 || e.Status > lnd.StatusNetworkTimeout {
		t.Fatalf("accepted %+v", e)
	}
	var out [protocol.EntrySize]byte
	e.Put(&out)
	canonical := e.Op != protocol.Send && e.Op != protocol.Arrived && !e.Peer.NID.IsAny()
	if canonical && out != *in {
		t.Fatalf("%+v: % x became % x", e, in, out)
	}
	var again protocol.Entry
	if err := decode(&again, &out); err != nil || again != *e {
		t.Fatalf("%+v became %+v (%v)", e, again, err)
	}
}

// FuzzUplndAttach reads the first record of a process that asks to be a proxy.
//
// UP-2
func FuzzUplndAttach(f *testing.F) {
	for _, a := range []protocol.Attach{
		{Net: lnet.MakeNet(lnet.TypeTCP, 1), NID: lnetNID(f, "192.168.1.20@tcp1"), Name: "mpi:4/7"},
		{NID: lnetNID(f, "2001:db8::20@tcp"), Name: strings.Repeat("x", protocol.MaxName)}, {},
	} {
		b := a.Append(nil)
		f.Add(b)
		f.Add(b[:len(b)-1])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var a protocol.Attach
		if err := a.Decode(b); err != nil {
			lnetNamed(t, err)
			failure := protocol.Failure{Errno: syscall.EINVAL, Text: err.Error()}
			if errors.Is(err, syscall.EPROTO) == errors.Is(err, syscall.EINVAL) {
				t.Fatalf("%v is neither EPROTO nor EINVAL, or both", err)
			}
			uplndFailure(t, failure.Append(nil))
			return
		}
		remoteText(t, a.Name, protocol.MaxName)
		if err := a.Validate(); err != nil {
			t.Fatalf("accepted %+v: %v", a, err)
		}
		out := a.Append(nil)
		if !a.NID.IsAny() && string(out) != string(b) {
			t.Fatalf("%+v: % x became % x", a, b, out)
		}
		var again protocol.Attach
		if err := again.Decode(out); err != nil || again != a {
			t.Fatalf("%+v became %+v (%v)", a, again, err)
		}
	})
}

// uplndFailure checks that a proxy gets a record as a failure.
func uplndFailure(t *testing.T, b []byte) {
	t.Helper()
	a, err := protocol.DecodeAnswer(b)
	var failure *protocol.Failure
	if !errors.As(err, &failure) || a != nil || failure.Errno == 0 || !errors.Is(err, failure.Errno) {
		t.Fatalf("% x became %+v, %v", b, a, err)
	}
	remoteText(t, failure.Text, protocol.MaxRecord)
	if again := failure.Append(nil); len(again) > protocol.MaxRecord {
		t.Fatalf("%d bytes", len(again))
	}
}

// FuzzUplndAnswer reads the records that a proxy gets from lnetd, or from a process in its place.
//
// UP-2
func FuzzUplndAnswer(f *testing.F) {
	for _, a := range []protocol.Attached{
		{NID: lnetNID(f, "192.168.1.20@tcp1"), AreaSize: 2 * protocol.MaxBuffer, Timeout: 50 * time.Second},
		{NID: lnetNID(f, "2001:db8::20@tcp"), AreaSize: protocol.MaxArea},
	} {
		b := a.Append(nil)
		f.Add(b)
		f.Add(b[:len(b)-1])
	}
	failure := protocol.Failure{Errno: syscall.EBUSY, Text: "192.168.1.20@tcp1 has a proxy"}
	f.Add(failure.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := protocol.DecodeAnswer(b)
		var failure *protocol.Failure
		switch {
		case errors.As(err, &failure):
			uplndFailure(t, b)
			uplndFailure(t, failure.Append(nil))
			return
		case err != nil:
			lnetNamed(t, err)
			if a != nil || !errors.Is(err, syscall.EPROTO) {
				t.Fatalf("%+v, %v", a, err)
			}
			return
		}
		if a.Timeout < 0 || a.AreaSize > protocol.MaxArea {
			t.Fatalf("accepted %+v", a)
		}
		half := a.AreaSize / 2
		if b := protocol.NewBuffers(uint64(half), half); !b.Contains(uint64(half), uint32(half)) || b.Contains(uint64(a.AreaSize), 1) {
			t.Fatalf("accepted %+v, whose halves are not %d bytes", a, half)
		}
		out := a.Append(nil)
		if !a.NID.IsAny() && string(out) != string(b) {
			t.Fatalf("%+v: % x became % x", a, b, out)
		}
		if again, err := protocol.DecodeAnswer(out); err != nil || *again != *a {
			t.Fatalf("%+v became %+v (%v)", a, again, err)
		}
	})
}
