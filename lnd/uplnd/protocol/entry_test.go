package protocol

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

func nid(s string) lnet.NID {
	n, err := lnet.ParseNID(s)
	if err != nil {
		panic(err)
	}
	return n
}

// sameBytes checks that got matches a hex dump, which may contain white space.
func sameBytes(t *testing.T, got []byte, dump string) {
	t.Helper()
	if diff := cmp.Diff(strings.Join(strings.Fields(dump), ""), hex.EncodeToString(got)); diff != "" {
		t.Errorf("bytes (-want +got):\n%s", diff)
	}
}

// goldenEntries are entries and their bytes: the two lines before the peer, the peer, and the rest.
var goldenEntries = []struct {
	name   string
	entry  Entry
	decode func(*Entry, *[EntrySize]byte) error
	dump   string
}{
	// UP-5
	{"SEND", Entry{
		Op: Send, Urgent: true, Vouched: true, Length: 0x01020304, Handle: 0x1112131415161718, Offset: 0x2122232425262728,
		Peer: lnet.ProcessID{NID: nid("192.168.1.20@tcp1"), PID: 0x31323334},
		Header: lnet.Header{
			Dest: nid("2001:db8::20@tcp"), Src: nid("192.168.1.10@tcp1"), DestPID: 0x41424344, SrcPID: 0x45464748,
			Type: lnet.MsgPut, PayloadLength: 0x00010203, Handle: lnet.Handle{Interface: 0x5152535455565758, Object: 0x6162636465666768},
			MatchBits: 0x7172737475767778, HdrData: 0x8182838485868788, Portal: 0x91929394, Offset: 0xa1a2a3a4,
		},
	}, (*Entry).DecodeOrder, `
		01 05 00 00 04030201 1817161514131211
		2827262524232221 0000000000000000
		00020001 c0a80114 00000000 00000000 00000000 34333231 0000000000000000
		0c020000 20010db8 00000000 00000000 00000020
		00020001 c0a8010a 00000000 00000000 00000000
		44434241 48474645 01000000 03020100
		5857565554535251 6867666564636261 7877767574737271 8887868584838281 94939291 a4a3a2a1` +
		strings.Repeat("00", 96)},
	{"SENT", Entry{
		Op: Sent, Status: lnd.StatusNetworkTimeout, Cause: CauseTimeout, Handle: 0x1112131415161718, Text: "timed out, ~",
	}, (*Entry).DecodeReport, `
		41 00 0a 04 00000000 1817161514131211
		0000000000000000 0000000000000000
		00000000 00000000 00000000 00000000 00000000 00000000 0000000000000000
		74696d6564206f75742c207e` + strings.Repeat("00", MaxText-12)},
	{"PEER_DOWN", Entry{
		Op: PeerDown, Status: lnd.StatusRemoteError, Cause: CauseRestarted, Time: 0x0102030405060708,
		Peer: lnet.ProcessID{NID: nid("2001:db8::20@tcp")}, Text: strings.Repeat("x", MaxText),
	}, (*Entry).DecodeReport, `
		45 00 07 07 00000000 0000000000000000
		0000000000000000 0807060504030201
		0c020000 20010db8 00000000 00000000 00000020 00000000 0000000000000000` +
		strings.Repeat("78", MaxText)},
}

// Entries byte by byte, with a header and with texts.
func TestGoldenEntries(t *testing.T) {
	for _, g := range goldenEntries {
		t.Run(g.name, func(t *testing.T) {
			var b [EntrySize]byte
			g.entry.Put(&b)
			sameBytes(t, b[:], g.dump)
			var e Entry
			if err := g.decode(&e, &b); err != nil || e != g.entry {
				t.Errorf("decoded %+v, %v", e, err)
			}
		})
	}
}

// Each flag has its bit.
func TestFlags(t *testing.T) {
	for k, e := range []Entry{{Urgent: true}, {More: true}, {Vouched: true}, {HasPayload: true}, {Up: true}} {
		var b [EntrySize]byte
		e.Put(&b)
		if b[1] != 1<<k {
			t.Errorf("flags %#x, want only bit %d", b[1], k)
		}
	}
}

// Each op has a number and a name. Numbers of no op are printed as numbers.
func TestOps(t *testing.T) {
	names := map[Op]string{0: "op 0", endOrders: "op 12", Sent - 1: "op 64", endReports: "op 76", math.MaxUint8: "op 255"}
	orders := "SEND RECALL TAKE DONE WAIT REFUSE DISCONNECT LINK_BACK PROBE PID TIMEOUT"
	for k, name := range strings.Fields(orders) {
		names[Op(1+k)] = name
	}
	reports := "SENT ARRIVED PAYLOAD WITHDRAWN PEER_DOWN LOST RESTARTED STALLED LINK ALLOCATE_PID REGISTER_PID"
	for k, name := range strings.Fields(reports) {
		names[Op(65+k)] = name
	}
	for o, want := range names {
		if o.String() != want {
			t.Errorf("%d: %q, want %q", uint8(o), o, want)
		}
	}
}

// DecodeOrder accepts the ops of orders and no others, and DecodeReport those of reports.
func TestOpsOfOneSide(t *testing.T) {
	for k := range 1 << 8 {
		o := Op(k)
		e := Entry{Op: o, Header: lnet.Header{Type: lnet.MsgAck}}
		var b [EntrySize]byte
		e.Put(&b)
		var d Entry
		for _, side := range []struct {
			err  error
			want bool
		}{
			{d.DecodeOrder(&b), Send <= o && o <= Timeout},
			{d.DecodeReport(&b), Sent <= o && o <= RegisterPID},
		} {
			switch {
			case side.want && side.err != nil:
				t.Errorf("%v: %v", o, side.err)
			case !side.want:
				checkField(t, side.err, "entry", "op")
			}
		}
	}
}

func drawNID(t *rapid.T) lnet.NID {
	return rapid.SampledFrom([]lnet.NID{
		{}, lnet.LoopbackNID, lnet.AnyNID, nid("10.0.0.1@o2ib7"), nid("255.255.255.255@tcp65535"), nid("fd00::1@tcp"),
	}).Draw(t, "nid")
}

// drawHeader draws any valid header.
func drawHeader(t *rapid.T) lnet.Header {
	u32, u64 := rapid.Uint32(), rapid.Uint64()
	h := lnet.Header{
		Dest: drawNID(t), Src: drawNID(t), DestPID: lnet.PID(u32.Draw(t, "dest pid")), SrcPID: lnet.PID(u32.Draw(t, "src pid")),
		Type:   lnet.MsgType(rapid.Uint32Range(uint32(lnet.MsgAck), uint32(lnet.MsgReply)).Draw(t, "type")),
		Handle: lnet.Handle{Interface: u64.Draw(t, "interface"), Object: u64.Draw(t, "object")},
	}
	if h.Type == lnet.MsgPut || h.Type == lnet.MsgReply {
		h.PayloadLength = rapid.Uint32Max(lnet.MTU).Draw(t, "payload length")
	}
	if h.Type != lnet.MsgReply {
		h.MatchBits = u64.Draw(t, "match bits")
	}
	if h.Type == lnet.MsgPut {
		h.HdrData = u64.Draw(t, "hdr data")
	}
	if h.Type == lnet.MsgPut || h.Type == lnet.MsgGet {
		h.Portal, h.Offset = u32.Draw(t, "portal"), u32.Draw(t, "header offset")
	}
	if h.Type == lnet.MsgAck || h.Type == lnet.MsgGet {
		h.Length = u32.Draw(t, "header length")
	}
	return h
}

// drawText draws a text of up to most bytes.
func drawText(t *rapid.T, most int) string {
	return rapid.StringOfN(rapid.Custom(func(t *rapid.T) rune { return rapid.Int32Range(' ', '~').Draw(t, "c") }), 0, most, most).Draw(t, "text")
}

func drawEntry(t *rapid.T, first, end Op) Entry {
	flag := func(label string) bool { return rapid.Bool().Draw(t, label) }
	e := Entry{
		Op:     Op(rapid.Uint8Range(uint8(first), uint8(end-1)).Draw(t, "op")),
		Status: lnd.Status(rapid.Uint8Max(uint8(lnd.StatusNetworkTimeout)).Draw(t, "status")),
		Cause:  Cause(rapid.Uint8Max(uint8(CauseBusy)).Draw(t, "cause")),
		Urgent: flag("urgent"), More: flag("more"), Vouched: flag("vouched"), HasPayload: flag("has payload"), Up: flag("up"),
		Handle: rapid.Uint64().Draw(t, "handle"), Length: rapid.Uint32().Draw(t, "length"), Offset: rapid.Uint64().Draw(t, "offset"),
		Time: rapid.Uint64Max(math.MaxInt64).Draw(t, "time"),
		Peer: lnet.ProcessID{NID: drawNID(t), PID: lnet.PID(rapid.Uint32().Draw(t, "pid"))},
	}
	if e.Op.hasHeader() {
		e.Header = drawHeader(t)
	} else {
		e.Text = drawText(t, MaxText)
	}
	return e
}

// Decoding returns the encoded values, regardless of previous contents of the memory and the entry.
func TestEntriesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b [EntrySize]byte
		fill := rapid.Byte().Draw(t, "before")
		for k := range b {
			b[k] = fill
		}
		got := drawEntry(t, Send, endOrders)
		order, report := drawEntry(t, Send, endOrders), drawEntry(t, Sent, endReports)
		order.Put(&b)
		if err := got.DecodeOrder(&b); err != nil || got != order {
			t.Fatalf("%+v became %+v, %v", order, got, err)
		}
		report.Put(&b)
		if err := got.DecodeReport(&b); err != nil || got != report {
			t.Fatalf("%+v became %+v, %v", report, got, err)
		}
	})
}

// checkField checks that an error is about a field.
func checkField(t *testing.T, err error, what, name string) {
	t.Helper()
	var field *lnet.FieldError
	if !errors.As(err, &field) || field.What != what || field.Field != name || field.Err == nil {
		t.Errorf("error %v (%T), want one about %s, %s", err, err, what, name)
	}
}

// An invalid entry is refused with the name of the wrong field.
func TestInvalidEntries(t *testing.T) {
	type flaw struct {
		what, field string
		at          int
		value       byte
	}
	both := []flaw{
		{"entry", "flags", 1, 0x20}, {"entry", "flags", 1, 0x40}, {"entry", "flags", 1, 0x80}, {"entry", "flags", 1, 0xff},
		{"entry", "time", 31, 0x80}, {"entry", "time", 31, 0xff},
		{"entry", "status", 2, 11}, {"entry", "status", 2, 0xff}, {"entry", "cause", 3, 10}, {"entry", "cause", 3, 0xff},
		{"NID", "nid_size", 32, 3}, {"NID", "nid_size", 32, 0xff}, {"NID", "nid_addr", 40, 1}, {"NID", "nid_addr", 51, 1},
	}
	for at := 56; at < offHeader; at++ {
		both = append(both, flaw{"entry", "reserved bytes", at, 1}, flaw{"entry", "reserved bytes", at, 0x80})
	}
	inHeader := []flaw{
		{"header", "dest_nid.nid_size", 64, 3}, {"header", "dest_nid.nid_addr", 83, 1},
		{"header", "src_nid.nid_size", 84, 3}, {"header", "src_nid.nid_addr", 103, 1},
		{"header", "type", 112, byte(lnet.MsgHello)}, {"header", "type", 115, 1},
		{"header", "payload_length", 116, 1}, // of a GET
	}
	for _, at := range []int{160, 161, 200, 254, 255} {
		inHeader = append(inHeader, flaw{"entry", "reserved bytes", at, 1})
	}
	var inText []flaw
	for _, c := range []byte{1, '\n', ' ' - 1, '~' + 1, 0x80, 0xff} {
		inText = append(inText, flaw{"entry", "text", 64, c}, flaw{"entry", "text", 66, c}, flaw{"entry", "text", 255, c})
	}
	inText = append(inText, flaw{"entry", "text", 64, 0}, flaw{"entry", "text", 65, 0}, // before the end of the text
		flaw{"entry", "text", 68, 'x'}, flaw{"entry", "text", 255, 'x'})
	header := lnet.Header{Dest: lnet.LoopbackNID, Src: lnet.LoopbackNID, Type: lnet.MsgGet}
	peer := lnet.ProcessID{NID: lnet.LoopbackNID, PID: lnet.PIDLustre}
	for _, c := range []struct {
		entry  Entry
		decode func(*Entry, *[EntrySize]byte) error
		flaws  []flaw
	}{
		{Entry{Op: Send, Peer: peer, Header: header}, (*Entry).DecodeOrder, inHeader},
		{Entry{Op: Arrived, Peer: peer, Header: header}, (*Entry).DecodeReport, inHeader},
		{Entry{Op: PID, Peer: peer, Text: "tex"}, (*Entry).DecodeOrder, inText},
		{Entry{Op: PeerDown, Peer: peer, Text: "tex"}, (*Entry).DecodeReport, inText},
	} {
		for _, f := range append(both[:len(both):len(both)], c.flaws...) {
			var b [EntrySize]byte
			c.entry.Put(&b)
			b[f.at] = f.value
			var e Entry
			if err := c.decode(&e, &b); err == nil {
				t.Errorf("%v with byte %d %#x: no error, want one about %s, %s", c.entry.Op, f.at, f.value, f.what, f.field)
			} else {
				checkField(t, err, f.what, f.field)
			}
		}
	}
}

// A payload that is longer than the MTU is refused in any message.
func TestPayloadLength(t *testing.T) {
	for _, m := range []lnet.MsgType{lnet.MsgPut, lnet.MsgReply} {
		for _, n := range []uint32{lnet.MTU, lnet.MTU + 1, math.MaxUint32} {
			sent := Entry{Op: Arrived, Header: lnet.Header{Type: m, PayloadLength: n}}
			var b [EntrySize]byte
			sent.Put(&b)
			var e Entry
			if err := e.DecodeReport(&b); n > lnet.MTU {
				checkField(t, err, "header", "payload_length")
			} else if err != nil {
				t.Error(err)
			}
		}
	}
}

// A text that is too long is cut, and each byte that is not printable becomes a question mark.
func TestTextsBecomePrintable(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "",
		"a\nb\x00c\x7fd\xff":               "a?b?c?d?",
		"größer":                           "gr????er",
		"x ~":                              "x ~",
		strings.Repeat("y", MaxText) + "z": strings.Repeat("y", MaxText),
		strings.Repeat("\n", 3*MaxText):    strings.Repeat("?", MaxText),
	} {
		sent := Entry{Op: Sent, Text: text}
		var b [EntrySize]byte
		sent.Put(&b)
		var e Entry
		if err := e.DecodeReport(&b); err != nil || e.Text != want {
			t.Errorf("%q became %q (%v), want %q", text, e.Text, err, want)
		}
	}
}

// Entries without a text do not allocate.
func TestEntriesDoNotAllocate(t *testing.T) {
	for _, want := range []Entry{
		{Op: Send, More: true, Handle: 1, Peer: lnet.ProcessID{NID: nid("2001:db8::20@tcp")}, Header: lnet.Header{Type: lnet.MsgPut}},
		{Op: Arrived, HasPayload: true, Header: lnet.Header{Type: lnet.MsgReply}},
		{Op: Done, Handle: 1}, {Op: Sent, Handle: 1},
	} {
		var (
			b [EntrySize]byte
			e Entry
		)
		decode := (*Entry).DecodeOrder
		if want.Op >= Sent {
			decode = (*Entry).DecodeReport
		}
		allocs := testing.AllocsPerRun(100, func() {
			want.Put(&b)
			if err := decode(&e, &b); err != nil {
				t.Error(err)
			}
		})
		if allocs != 0 || e != want {
			t.Errorf("%v: %v allocations", want.Op, allocs)
		}
	}
}

// Causes have numbers. An error of a driver is, on the other side, the same error for errors.Is, with its text.
func TestCauses(t *testing.T) {
	sentinels := []error{
		lnd.ErrClosed, lnd.ErrUnreachable, lnd.ErrRecalled, lnd.ErrTimeout, lnd.ErrProtocol, lnd.ErrDisconnected,
		lnd.ErrRestarted, lnd.ErrLargeNID, CauseBusy.Err(""),
	}
	if len(sentinels) != int(endCauses)-1 {
		t.Errorf("%d errors, want one for each cause but the first", len(sentinels))
	}
	for k, want := range sentinels {
		c := CauseOf(&lnd.Error{Op: "send", Err: fmt.Errorf("10.0.0.1@tcp: %w", want)})
		if c != Cause(k+1) {
			t.Errorf("%v: cause %d, want %d", want, c, k+1)
		}
		err := c.Err("it says why")
		if err.Error() != "it says why" || CauseOf(err) != c {
			t.Errorf("%v became %v, cause %d", want, err, CauseOf(err))
		}
		for _, s := range sentinels {
			if errors.Is(err, s) != errors.Is(want, s) {
				t.Errorf("%v became %v: errors.Is(%v) is %t", want, err, s, errors.Is(err, s))
			}
		}
		if c.Err("") != want || c.Err(want.Error()) != want {
			t.Errorf("%v: %v without a text, %v with its own", want, c.Err(""), c.Err(want.Error()))
		}
	}
	for _, err := range []error{nil, io.EOF, lnd.ErrExists} {
		if c := CauseOf(err); c != CauseOther {
			t.Errorf("%v: cause %d, want that of other errors", err, c)
		}
	}
	if err := CauseOther.Err(""); err == nil || err.Error() != "no reason given" {
		t.Errorf("other cause without a text: %v", err)
	}
	if err := CauseOther.Err("disk full"); err.Error() != "disk full" || CauseOf(err) != CauseOther {
		t.Errorf("other cause: %v, cause %d", err, CauseOf(err))
	}
}

// SetError keeps the status, the cause and the text of an error. Of an lnd.Error, which lnetd makes again, it
// keeps the text of the cause.
//
// UP-5
func TestSetError(t *testing.T) {
	driver := &lnd.Error{
		Driver: "socklnd", Op: "send", Peer: nid("10.0.0.1@tcp"), Status: lnd.StatusRemoteDropped,
		Err: fmt.Errorf("port 988: %w", lnd.ErrUnreachable),
	}
	for _, c := range []struct {
		err  error
		want Entry
	}{
		{nil, Entry{}},
		{io.EOF, Entry{Status: lnd.StatusLocalError, Text: "EOF"}},
		{lnd.ErrClosed, Entry{Status: lnd.StatusLocalError, Cause: CauseClosed, Text: "interface closed"}},
		{driver, Entry{Status: lnd.StatusRemoteDropped, Cause: CauseUnreachable, Text: "port 988: no connection with the peer"}},
		{
			fmt.Errorf("message 7: %w", driver),
			Entry{Status: lnd.StatusRemoteDropped, Cause: CauseUnreachable, Text: "port 988: no connection with the peer"},
		},
		{
			&lnd.Error{Op: "receive", Status: lnd.StatusNetworkTimeout, Err: io.ErrUnexpectedEOF},
			Entry{Status: lnd.StatusNetworkTimeout, Text: "unexpected EOF"},
		},
	} {
		got := Entry{Op: Sent, Handle: 7, Status: lnd.StatusLocalTimeout, Cause: CauseTimeout, Text: "of another message"}
		got.SetError(c.err)
		c.want.Op, c.want.Handle = Sent, 7
		if got != c.want {
			t.Errorf("%v: %+v, want %+v", c.err, got, c.want)
		}
		if err := got.Cause.Err(got.Text); c.err != nil && CauseOf(err) != CauseOf(c.err) {
			t.Errorf("%v became %v", c.err, err)
		}
	}
}
