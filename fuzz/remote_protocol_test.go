package fuzz

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport/remote/protocol"
)

// FuzzRemoteRequest reads what clients of lnetd send on the control socket.
//
// transport 9.9 (11)
func FuzzRemoteRequest(f *testing.F) {
	for _, r := range []protocol.Request{
		&protocol.Hello{Lowest: 1, Highest: 2, Wanted: ^protocol.Features(0), Required: protocol.FeatPolling, Program: "oss"},
		&protocol.NIDsGet{}, &protocol.AreaAdd{Size: 2 << 20}, &protocol.AreaDel{Area: 1},
		&protocol.BufRegister{Ranges: []protocol.Range{{Area: 1, Length: 4096}, {Length: 1, Offset: 1<<64 - 2}}},
		&protocol.BufDeregister{Index: 1, Generation: 2},
		&protocol.TMStart{NID: lnet.LoopbackNID, PID: lnet.PIDLustre, Portal: 34, TMID: protocol.DynamicTMID, Completions: 1024},
		&protocol.TMStop{Handle: 1}, &protocol.StatsGet{Handle: protocol.NoHandle}, &protocol.Nop{Data: []byte("echo")},
	} {
		b, err := protocol.AppendRequest(nil, 7, r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(b[:len(b)-1])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		b = remoteSized(b)
		var h protocol.Header
		var r protocol.Request
		var err error
		lnetBounded(t, 1<<16, func() { h, r, err = protocol.DecodeRequest(b) })
		if err != nil {
			lnetNamed(t, err)
			cut := errors.Is(err, syscall.EPROTO)
			if r != nil || cut && h != (protocol.Header{}) || !cut && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.EOPNOTSUPP) {
				t.Fatalf("%+v, %v, %v", h, r, err)
			}
			answer, body, err2 := protocol.DecodeReply(protocol.AppendFailure(nil, h, err))
			if err2 != nil || answer.Failure(body) == nil {
				t.Fatalf("%v cannot be answered: %v", err, err2)
			}
			return
		}
		if hello, ok := r.(*protocol.Hello); ok {
			remoteHello(t, hello)
			return
		}
		if again, err := protocol.AppendRequest(nil, h.Sequence, r); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%+v: % x became % x (%v)", r, b, again, err)
		}
	})
}

// remoteSized returns b with its own length in it, which a mutation seldom writes by itself. It keeps a
// length of zero.
func remoteSized(b []byte) []byte {
	if len(b) < protocol.HeaderSize || b[8] == 0 {
		return b
	}
	b = bytes.Clone(b)
	binary.LittleEndian.PutUint32(b[8:], uint32(len(b)))
	return b
}

// remoteHello checks a client's hello: its name must be printable, and it must be granted what it has
// requested.
func remoteHello(t *testing.T, h *protocol.Hello) {
	t.Helper()
	remoteText(t, h.Program, protocol.MaxProgram)
	var again protocol.Hello
	if err := again.Decode(h.Append(nil)); err != nil || again != *h {
		t.Fatalf("%+v became %+v (%v)", h, again, err)
	}
	version, granted, err := h.Negotiate(protocol.Implemented)
	if err != nil {
		lnetNamed(t, err)
		return
	}
	if err := h.Check(&protocol.HelloReply{Version: version, Features: granted}); err != nil {
		t.Fatalf("%+v does not agree with %d, %v: %v", h, version, granted, err)
	}
}

func remoteText(t testing.TB, s string, most int) {
	t.Helper()
	if len(s) > most {
		t.Fatalf("a text of %d bytes", len(s))
	}
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' {
			t.Fatalf("%q is not fit to be shown", s)
		}
	}
}

// remoteReplies returns one reply body of each kind.
func remoteReplies() []protocol.Body {
	notice := protocol.CutOff(syscall.EPROTO)
	return []protocol.Body{
		&protocol.HelloReply{Version: 1, Connection: 1, Limits: protocol.Limits{BufferSize: 1 << 20, SegmentSize: 4096, Segments: 256, DescriptorSize: 48}},
		&protocol.NIDsReply{NIDs: []lnet.NID{lnet.LoopbackNID}}, &protocol.AreaAddReply{Area: 1},
		&protocol.BufRegisterReply{Index: 1, Generation: 2}, &protocol.TMStartReply{Handle: 1, TMID: 4095, Completions: 1024, Credits: 1016},
		&protocol.Counters{Submissions: 1}, &protocol.Nop{Data: []byte("echo")}, &protocol.Empty{}, &notice,
	}
}

// FuzzRemoteReply decodes the replies that a client gets from lnetd, or from a process in its place, as
// each kind of reply.
func FuzzRemoteReply(f *testing.F) {
	for i, r := range remoteReplies() {
		b, err := protocol.AppendReply(nil, protocol.Header{Opcode: protocol.OpNop, Sequence: 7}, r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, uint8(i))
	}
	f.Add(protocol.AppendFailure(nil, protocol.Header{Opcode: protocol.OpHello}, syscall.EACCES), uint8(0))
	f.Fuzz(func(t *testing.T, b []byte, kind uint8) {
		b = remoteSized(b)
		h, body, err := protocol.DecodeReply(b)
		if err != nil {
			lnetNamed(t, err)
			if !errors.Is(err, syscall.EPROTO) || h != (protocol.Header{}) || body != nil {
				t.Fatalf("%+v, %v", h, err)
			}
			return
		}
		if err := h.Failure(body); err != nil {
			var failure *protocol.Failure
			if !errors.As(err, &failure) || failure.Errno == 0 {
				t.Fatalf("%T: %v", err, err)
			}
			remoteText(t, failure.Text, protocol.MaxText)
			return
		}
		all := remoteReplies()
		remoteReply(t, all[int(kind)%len(all)], body)
	})
}

// remoteReply decodes a body as the type of r.
func remoteReply(t *testing.T, r protocol.Body, body []byte) {
	t.Helper()
	var err error
	lnetBounded(t, 1<<16, func() { err = r.Decode(body) })
	if err != nil {
		lnetNamed(t, err)
		if !errors.Is(err, syscall.EINVAL) {
			t.Fatal(err)
		}
		return
	}
	again := r.Append(nil)
	switch r := r.(type) {
	case *protocol.Notice:
		remoteText(t, r.Text, protocol.MaxText)
		if r.Kind == protocol.NoticeCutOff && r.Errno() == 0 {
			t.Fatalf("%+v", r)
		}
	case *protocol.Counters:
		// There may have been more of them, or less.
	default:
		if !bytes.Equal(again, body) {
			t.Fatalf("%+v: % x became % x", r, body, again)
		}
	}
	second := reflect.New(reflect.TypeOf(r).Elem()).Interface().(protocol.Body)
	if err := second.Decode(again); err != nil || !bytes.Equal(second.Append(nil), again) {
		t.Fatalf("%+v became %+v (%v)", r, second, err)
	}
}
