package protocol

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/lnet"
)

// bodies returns the golden bodies, from which invalid ones are made.
func bodies(t testing.TB) map[string][]byte {
	all := map[string][]byte{}
	for _, g := range goldenRequests {
		all[g.name] = unhex(t, g.dump)[HeaderSize:]
	}
	for _, g := range goldenReplies {
		all["reply to "+g.opcode.String()] = unhex(t, g.dump)[HeaderSize:]
	}
	all["NOTICE"] = unhex(t, goldenNotices[1].dump)[HeaderSize:]
	return all
}

// Each field with an invalid value is refused by name.
func TestRejectedBodies(t *testing.T) {
	any20 := bytes.Repeat([]byte{0xff}, lnet.LargeNIDSize)
	for _, c := range []struct {
		of, about string
		into      Body
		offset    int
		bytes     []byte
	}{
		{"HELLO", "lowest version", &Hello{}, 0, []byte{0, 0}},
		{"HELLO", "highest version", &Hello{}, 0, []byte{3, 0}},
		{"HELLO", "reserved word at 4", &Hello{}, 7, []byte{1}},
		{"HELLO", "program", &Hello{}, 28, []byte{'x'}},
		{"HELLO", "program", &Hello{}, 24, bytes.Repeat([]byte{'x'}, 32)},
		{"reply to HELLO", "version", &HelloReply{}, 0, []byte{0, 0}},
		{"reply to HELLO", "reserved half word at 2", &HelloReply{}, 3, []byte{1}},
		{"reply to HELLO", "reserved word at 4", &HelloReply{}, 4, []byte{1}},
		{"reply to HELLO", "buffer size", &HelloReply{}, 16, uint32At(0)},
		{"reply to HELLO", "buffer size", &HelloReply{}, 16, uint32At(1 << 32)},
		{"reply to HELLO", "segment size", &HelloReply{}, 24, uint32At(0)},
		{"reply to HELLO", "segment size", &HelloReply{}, 24, uint32At(math.MaxUint64)},
		{"reply to HELLO", "segments", &HelloReply{}, 32, word(0)},
		{"reply to HELLO", "segments", &HelloReply{}, 32, word(MaxRanges + 1)},
		{"reply to HELLO", "descriptor size", &HelloReply{}, 36, word(0)},
		{"reply to HELLO", "connection", &HelloReply{}, 80, make([]byte, 8)},
		{"reply to NIDS_GET", "count", &NIDsReply{}, 0, word(MaxNIDs + 1)},
		{"reply to NIDS_GET", "body", &NIDsReply{}, 0, word(2)},
		{"reply to NIDS_GET", "body", &NIDsReply{}, 0, word(4)},
		{"reply to NIDS_GET", "NID 1.nid_size", &NIDsReply{}, 24, []byte{1}},
		{"reply to NIDS_GET", "NID 1.nid_addr", &NIDsReply{}, 43, []byte{1}},
		{"reply to NIDS_GET", "NID 0", &NIDsReply{}, 4, any20},
		{"reply to NIDS_GET", "NID 2", &NIDsReply{}, 44, make([]byte, 20)},
		{"AREA_ADD", "size", &AreaAdd{}, 0, uint32At(0)},
		{"AREA_ADD", "flags", &AreaAdd{}, 8, word(1)},
		{"AREA_ADD", "reserved word at 12", &AreaAdd{}, 12, word(1)},
		{"BUF_REGISTER", "count", &BufRegister{}, 0, word(MaxRanges + 1)},
		{"BUF_REGISTER", "count", &BufRegister{}, 0, word(math.MaxUint32)},
		{"BUF_REGISTER", "body", &BufRegister{}, 0, word(1)},
		{"BUF_REGISTER", "body", &BufRegister{}, 0, word(MaxRanges)},
		{"BUF_REGISTER", "reserved word at 4", &BufRegister{}, 4, word(1)},
		{"BUF_REGISTER", "range 1: length", &BufRegister{}, 28, word(0)},
		{"BUF_REGISTER", "range 0: offset", &BufRegister{}, 16, uint32At(math.MaxUint64 - 4095)},
		{"TM_START", "NID", &TMStart{}, 0, any20},
		{"TM_START", "NID", &TMStart{}, 0, make([]byte, 20)},
		{"TM_START", "NID.nid_size", &TMStart{}, 0, []byte{4}},
		{"TM_START", "portal", &TMStart{}, 24, word(0)},
		{"TM_START", "portal", &TMStart{}, 24, word(64)},
		{"TM_START", "TM id", &TMStart{}, 28, word(0)},
		{"TM_START", "TM id", &TMStart{}, 28, word(DynamicTMID + 1)},
		{"TM_START", "CQ entries", &TMStart{}, 32, word(0)},
		{"TM_START", "CQ entries", &TMStart{}, 32, word(MaxCompletions + 1)},
		{"TM_START", "flags", &TMStart{}, 36, word(1)},
		{"reply to TM_START", "handle", &TMStartReply{}, 0, word(NoHandle)},
		{"reply to TM_START", "TM id", &TMStartReply{}, 4, word(0)},
		{"reply to TM_START", "TM id", &TMStartReply{}, 4, word(DynamicTMID)},
		{"reply to TM_START", "CQ entries", &TMStartReply{}, 8, append(word(1), word(4)...)},
		{"reply to TM_START", "CQ entries", &TMStartReply{}, 8, append(word(1000), word(4000)...)},
		{"reply to TM_START", "CQ entries", &TMStartReply{}, 8, append(word(1<<30), word(0)...)},
		{"reply to TM_START", "SQ entries", &TMStartReply{}, 12, word(2048)},
		{"reply to TM_START", "credits", &TMStartReply{}, 16, word(0)},
		{"reply to TM_START", "credits", &TMStartReply{}, 16, word(1025)},
		{"TM_STOP", "handle", &TMStop{}, 0, word(NoHandle)},
		{"reply to TM_STOP", "count", &Counters{}, 0, word(maxCounters + 1)},
		{"reply to TM_STOP", "body", &Counters{}, 0, word(4)},
		{"reply to TM_STOP", "reserved word at 4", &Counters{}, 4, word(1)},
		{"NOTICE", "value", &Notice{}, 4, word(0)},
		{"NOTICE", "value", &Notice{}, 4, word(1)},
		{"NOTICE", "value", &Notice{}, 4, word(0xfffff000)},
		{"NOTICE", "value", &Notice{}, 0, word(1)},
		{"NOTICE", "value", &Notice{}, 0, word(3)},
	} {
		t.Run(c.of+", "+c.about, func(t *testing.T) {
			good := bodies(t)[c.of]
			refused(t, c.into, good, put(good, c.offset, c.bytes...), c.about)
		})
	}
}

// refused checks that bad is refused with an error about the given field, and that into, decoded from good
// before, is unchanged.
func refused(t *testing.T, into Body, good, bad []byte, about string) {
	t.Helper()
	was := blank(into)
	for _, b := range []Body{was, into} {
		if err := b.Decode(good); err != nil {
			t.Fatalf("before: %v", err)
		}
	}
	err := into.Decode(bad)
	named(t, err, syscall.EINVAL)
	var field *lnet.FieldError
	if errors.As(err, &field) && field.Field != about {
		t.Errorf("error %q, want it about %q", err, about)
	}
	same(t, was, into)
}

// Bodies with a fixed length refuse all other lengths.
func TestLengthsOfBodies(t *testing.T) {
	kinds := map[string]Body{"NOTICE": &Notice{}}
	for _, g := range goldenRequests {
		kinds[g.name] = g.request
	}
	for _, g := range goldenReplies {
		kinds["reply to "+g.opcode.String()] = g.reply
	}
	for name, good := range bodies(t) {
		if strings.HasSuffix(name, "NOP") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			shortest := len(good)
			if name == "NOTICE" {
				shortest = noticeHead
			} else {
				refused(t, blank(kinds[name]), good, append(bytes.Clone(good), 0), "body")
			}
			for n := range shortest {
				// A fresh slice, so that reading past its end panics.
				refused(t, blank(kinds[name]), good, append(make([]byte, 0, n), good[:n]...), "body")
			}
		})
	}
	refused(t, &BufRegister{}, bodies(t)["BUF_REGISTER"], make([]byte, registerHead), "count")
	long := append(bytes.Clone(bodies(t)["NOTICE"]), make([]byte, MaxText)...)
	refused(t, &Notice{}, bodies(t)["NOTICE"], long, "text")
}

// Counters that the peer does not send are zero. Counters that only the peer knows are ignored.
func TestCountersOfOtherVersions(t *testing.T) {
	three := append(append(word(3), word(0)...), bytes.Join([][]byte{uint32At(1), uint32At(2), uint32At(3)}, nil)...)
	var c Counters
	if err := c.Decode(three); err != nil || c != (Counters{Submissions: 1, Completions: 2, BellWrites: 3}) {
		t.Errorf("%+v, %v", c, err)
	}
	most := append(append(word(maxCounters), word(0)...), bytes.Repeat(uint32At(9), maxCounters)...)
	if err := c.Decode(most); err != nil || c != (Counters{9, 9, 9, 9, 9}) {
		t.Errorf("%+v, %v", c, err)
	}
	if err := c.Decode(make([]byte, 8)); err != nil || c != (Counters{}) {
		t.Errorf("%+v, %v", c, err)
	}
}

// Names of programs are cut to the available space, which includes the terminating NUL.
func TestNamesOfPrograms(t *testing.T) {
	long := strings.Repeat("x", 40)
	for name, want := range map[string]string{"": "", "a b": "a b", long[:31]: long[:31], long: long[:31], "ö\n": "???"} {
		var h Hello
		if err := h.Decode((&Hello{Lowest: 1, Highest: 1, Program: name}).Append(nil)); err != nil || h.Program != want {
			t.Errorf("%q became %q, want %q (%v)", name, h.Program, want, err)
		}
	}
}

// A ring gets the requested number of entries, rounded up to a power of two, at least two.
func TestGranted(t *testing.T) {
	for asked, want := range map[uint32]uint32{1: 2, 2: 2, 3: 4, 4: 4, 1000: 1024, 8193: 16384, 16384: 16384} {
		if got := Granted(asked); got != want {
			t.Errorf("asked for %d, granted %d, want %d", asked, got, want)
		}
	}
}

// Memory is allocated for the received items, not for the number in count.
func TestCountsDoNotAllocate(t *testing.T) {
	for name, into := range map[string]Body{"BUF_REGISTER": &BufRegister{}, "reply to NIDS_GET": &NIDsReply{}, "reply to TM_STOP": &Counters{}} {
		for _, count := range []uint32{MaxNIDs, MaxRanges, math.MaxUint32} {
			b := put(bodies(t)[name], 0, word(count)...)
			const times = 100
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range times {
				_ = into.Decode(b)
			}
			runtime.ReadMemStats(&after)
			if n := (after.TotalAlloc - before.TotalAlloc) / times; n > 4096 {
				t.Errorf("%s, count %d: %d bytes allocated", name, count, n)
			}
		}
	}
}

// Only requests with a list of ranges or a name allocate memory in addition to the value.
func TestDecodeDoesNotAllocate(t *testing.T) {
	for _, g := range goldenRequests {
		most := 0.0
		switch g.request.(type) {
		case *Hello, *BufRegister:
			most = 2
		}
		body, into := unhex(t, g.dump)[HeaderSize:], blank(g.request)
		if n := testing.AllocsPerRun(100, func() { _ = into.Decode(body) }); n > most {
			t.Errorf("%s: %v allocations", g.name, n)
		}
	}
}

// A decoded body does not change with the bytes it was decoded from.
func TestBodiesAreIndependent(t *testing.T) {
	// No body keeps a reference to its input, except for Nop.
	for _, g := range goldenRequests {
		if g.request.Opcode() == OpNop {
			continue
		}
		body, into := unhex(t, g.dump)[HeaderSize:], blank(g.request)
		if err := into.Decode(body); err != nil {
			t.Fatal(err)
		}
		for i := range body {
			body[i] ^= 0xff
		}
		if !reflect.DeepEqual(into, g.request) {
			t.Errorf("%s changed with its record: %s", g.name, fmt.Sprint(into))
		}
	}
}

// An eighth of a ring, up to 8 entries, is reserved for completions of the TM.
func TestCredits(t *testing.T) {
	for entries, want := range map[uint32]uint32{2: 2, 4: 4, 8: 7, 32: 28, 64: 56, 1024: 1016, MaxCompletions: MaxCompletions - 8} {
		if got := Credits(entries); got != want {
			t.Errorf("%d of %d entries, want %d", got, entries, want)
		}
	}
}
