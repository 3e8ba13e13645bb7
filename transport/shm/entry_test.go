package shm

import (
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/lnet"
)

// Both entries byte by byte, with NIDs of both forms.
//
// transport 9.4
func TestGoldenEntries(t *testing.T) {
	nid := func(s string) lnet.NID { return must[lnet.NID](t)(lnet.ParseNID(s)) }
	s := Submission{
		Opcode: OpActiveSend, More: true, Buffer: 0x01020304, Generation: 0x05060708, Operation: 0x090a0b0c,
		MatchBits: 0x1112131415161718, Length: 0x21222324, MinReceive: 0x31323334, MaxMessages: 0x41424344,
		Peer: nid("192.168.1.20@tcp1"), PID: 12345, Portal: 0x51525354, TMID: 0x61626364,
	}
	var b [SubmissionSize]byte
	s.Put(&b)
	want := "06 01 0000 04030201 08070605 0c0b0a09 1817161514131211 24232221 34333231 44434241 00000000" +
		"00020001 c0a80114 00000000 00000000 00000000 39300000 54535251 64636261" + strings.Repeat("00", 56)
	if diff := cmp.Diff(strings.ReplaceAll(want, " ", ""), hex.EncodeToString(b[:])); diff != "" {
		t.Errorf("submission (-want +got):\n%s", diff)
	}
	c := Completion{
		Buffer: 0x01020304, Generation: 0x05060708, Operation: 0x090a0b0c, Errno: syscall.ECANCELED,
		Length: 0x11121314, Offset: 0x21222324, Time: 0x3132333435363738, Sender: nid("2001:db8::20@tcp"), PID: 12345,
		Portal: 0x4142, TMID: 0x0fff, Final: true, Rejected: true,
	}
	var d [CompletionSize]byte
	c.Put(&d)
	want = "04030201 08070605 0c0b0a09 83ffffff 14131211 24232221 3837363534333231" +
		"0c020000 20010db8 00000000 00000000 00000020 39300000 4241 ff0f 03 000000"
	if diff := cmp.Diff(strings.ReplaceAll(want, " ", ""), hex.EncodeToString(d[:])); diff != "" {
		t.Errorf("completion (-want +got):\n%s", diff)
	}
}

// Each opcode has a name. Numbers of no opcode are printed as numbers.
func TestOpcodeNames(t *testing.T) {
	for o, want := range map[Opcode]string{0: "opcode(0)", OpMsgRecv: "MSG_RECV", OpNop: "NOP", OpNop + 1: "opcode(9)"} {
		if o.String() != want {
			t.Errorf("%d: %q, want %q", uint8(o), o, want)
		}
	}
}

func nids(t *rapid.T) lnet.NID {
	return rapid.SampledFrom([]lnet.NID{
		{}, lnet.LoopbackNID, must[lnet.NID](t)(lnet.ParseNID("10.0.0.1@o2ib7")), must[lnet.NID](t)(lnet.ParseNID("fd00::1@tcp")),
	}).Draw(t, "nid")
}

func drawSubmission(t *rapid.T) Submission {
	u32 := func(label string) uint32 { return rapid.Uint32().Draw(t, label) }
	return Submission{
		Opcode: Opcode(rapid.IntRange(int(OpMsgRecv), int(OpNop)).Draw(t, "opcode")), More: rapid.Bool().Draw(t, "more"),
		Buffer: u32("buffer"), Generation: u32("generation"), Operation: u32("operation"),
		MatchBits: rapid.Uint64().Draw(t, "match bits"), Length: u32("length"), MinReceive: u32("min"),
		MaxMessages: u32("max"), Peer: nids(t), PID: lnet.PID(u32("pid")), Portal: u32("portal"), TMID: u32("tmid"),
	}
}

func drawCompletion(t *rapid.T) Completion {
	c := Completion{
		Errno:  syscall.Errno(rapid.IntRange(0, maxErrno).Draw(t, "errno")),
		Length: rapid.Uint32().Draw(t, "length"), Offset: rapid.Uint32().Draw(t, "offset"), Time: rapid.Uint64().Draw(t, "time"),
		Sender: nids(t), PID: lnet.PID(rapid.Uint32().Draw(t, "pid")), Portal: rapid.Uint16().Draw(t, "portal"),
		TMID: rapid.Uint16().Draw(t, "tmid"), Final: rapid.Bool().Draw(t, "final"), Rejected: rapid.Bool().Draw(t, "rejected"),
		TM: rapid.Bool().Draw(t, "tm"),
	}
	if !c.TM {
		c.Buffer, c.Generation, c.Operation = rapid.Uint32().Draw(t, "buffer"), rapid.Uint32().Draw(t, "generation"), rapid.Uint32().Draw(t, "operation")
	}
	return c
}

// Decode returns the encoded values, regardless of previous contents of the memory.
func TestEntriesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fill := rapid.Byte().Draw(t, "before")
		var b [SubmissionSize]byte
		for i := range b {
			b[i] = fill
		}
		s, s2 := drawSubmission(t), Submission{Length: 1}
		s.Put(&b)
		if err := s2.Decode(&b); err != nil || s2 != s {
			t.Fatalf("%+v became %+v, %v", s, s2, err)
		}
		d := [CompletionSize]byte(b[SubmissionSize-CompletionSize:])
		c, c2 := drawCompletion(t), Completion{Length: 1}
		c.Put(&d)
		if err := c2.Decode(&d); err != nil || c2 != c {
			t.Fatalf("%+v became %+v, %v", c, c2, err)
		}
	})
}

// An invalid entry is refused with the name of the wrong field, and the destination is unchanged.
func TestBadSubmissions(t *testing.T) {
	good := Submission{Opcode: OpMsgSend, Length: 1, Peer: lnet.LoopbackNID}
	type flaw struct {
		field string
		at    int
		value byte
	}
	flaws := []flaw{
		{"opcode", 0, 0}, {"opcode", 0, 9}, {"opcode", 0, math.MaxUint8}, {"flags", 1, 2}, {"flags", 1, 0x80},
		{"peer NID", 40, 3}, {"peer NID", 40, 0xff}, {"peer NID", 41, 0xff}, {"peer NID", 59, 1},
	}
	for at := 2; at < 4; at++ {
		flaws = append(flaws, flaw{"bytes 2 to 3", at, 1})
	}
	for at := 36; at < 40; at++ {
		flaws = append(flaws, flaw{"bytes 36 to 39", at, 1})
	}
	for at := 72; at < SubmissionSize; at++ {
		flaws = append(flaws, flaw{"bytes 72 to 127", at, 0x80})
	}
	for _, f := range flaws {
		var b [SubmissionSize]byte
		good.Put(&b)
		b[f.at] = f.value
		s := Submission{Buffer: 42}
		err := s.Decode(&b)
		checkField(t, err, f.field)
		if s != (Submission{Buffer: 42}) {
			t.Errorf("%v: decoded %+v", err, s)
		}
	}
}

// Completions with an invalid field are refused, with the name of the field.
func TestBadCompletions(t *testing.T) {
	good := Completion{Buffer: 1, Length: 1, Final: true, Sender: lnet.LoopbackNID}
	about := Completion{Errno: syscall.ENOBUFS, TM: true}
	highest := Completion{Errno: maxErrno, TM: true}
	cases := []struct {
		field string
		from  Completion
		at    int
		value byte
	}{
		{"flags", good, 60, 8}, {"flags", good, 60, 0x80},
		{"bytes 61 to 63", good, 61, 1}, {"bytes 61 to 63", good, 62, 1}, {"bytes 61 to 63", good, 63, 1},
		{"status", good, 12, 1}, {"status", good, 15, 0x80}, {"status", about, 13, 0xef}, {"status", highest, 12, 0},
		{"sender NID", good, 32, 3}, {"sender NID", good, 33, 0xff}, {"sender NID", good, 51, 1},
		{"bytes 0 to 11", about, 0, 1}, {"bytes 0 to 11", about, 7, 1}, {"bytes 0 to 11", about, 8, 1}, {"bytes 0 to 11", about, 11, 1},
	}
	for _, c := range cases {
		var b [CompletionSize]byte
		c.from.Put(&b)
		b[c.at] = c.value
		d := Completion{Buffer: 42}
		err := d.Decode(&b)
		checkField(t, err, c.field)
		if d != (Completion{Buffer: 42}) {
			t.Errorf("%v: decoded %+v", err, d)
		}
	}
}

// checkField checks that an error is about a field.
func checkField(t *testing.T, err error, want string) {
	t.Helper()
	var field *lnet.FieldError
	if !errors.As(err, &field) || field.Field != want || field.Err == nil {
		t.Errorf("%v, want one about %s", err, want)
	}
}

// fataler is a testing.TB or a *rapid.T.
type fataler interface {
	Helper()
	Fatal(args ...any)
}

// must returns v, or fails the test if there is an error.
func must[T any](tb fataler) func(v T, err error) T {
	return func(v T, err error) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return v
	}
}
