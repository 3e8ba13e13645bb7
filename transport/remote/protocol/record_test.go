package protocol

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/lnet"
)

// blank returns a new value of a body's type.
func blank(b Body) Body { return reflect.New(reflect.TypeOf(b).Elem()).Interface().(Body) }

// named checks that err names a field, has a text, and matches an errno.
func named(t interface {
	Helper()
	Errorf(format string, args ...any)
}, err error, errno syscall.Errno) {
	t.Helper()
	var field *lnet.FieldError
	if !errors.As(err, &field) || field.What == "" || field.Field == "" || field.Err == nil || !errors.Is(err, errno) {
		t.Errorf("error %v (%T), want one that names its field, %v", err, err, errno)
	}
}

// put returns a copy of b with other bytes at an offset.
func put(b []byte, offset int, v ...byte) []byte {
	b = bytes.Clone(b)
	copy(b[offset:], v)
	return b
}

func word(v uint32) []byte     { return binary.LittleEndian.AppendUint32(nil, v) }
func uint32At(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }

// A record with an invalid header ends the connection, on either side.
func TestInvalidHeaders(t *testing.T) {
	good := unhex(t, goldenRequests[3].dump)
	long := put(append(bytes.Clone(good), make([]byte, MaxRecord+1-len(good))...), 8, word(MaxRecord+1)...)
	for _, c := range []struct {
		name, field string
		record      []byte
	}{
		{"nothing", "record", nil},
		{"cut off", "record", good[:HeaderSize-1]},
		{"too long", "record", long},
		{"magic", "magic", put(good, 0, 'D', 'N', 'T', 'L')},
		{"version 0", "version", put(good, 4, 0, 0)},
		{"version 2", "version", put(good, 4, 2, 0)},
		{"less than it says", "length", good[:len(good)-1]},
		{"more than it says", "length", append(bytes.Clone(good), 0)},
		{"a length that wraps", "length", put(good, 8, word(0xffffffff)...)},
		{"a status above 0", "status", put(good, 16, word(1)...)},
		{"a status that is no errno", "status", put(good, 16, word(0xfffff000)...)},
		{"the least status", "status", put(good, 16, word(0x80000000)...)},
		{"flags", "flags", put(good, 20, word(1)...)},
	} {
		t.Run(c.name, func(t *testing.T) {
			for side, decode := range map[string]func() error{
				"request": func() error { _, _, err := DecodeRequest(c.record); return err },
				"reply":   func() error { _, _, err := DecodeReply(c.record); return err },
			} {
				err := decode()
				named(t, err, syscall.EPROTO)
				var field *lnet.FieldError
				if errors.As(err, &field) && field.Field != c.field {
					t.Errorf("%s: error about %q, want %q", side, field.Field, c.field)
				}
			}
		})
	}
}

// Records that only the other side may send, and requests with a status, are refused.
func TestOpcodesOfOneSide(t *testing.T) {
	_, _, err := DecodeRequest(put(unhex(t, goldenRequests[3].dump), 16, word(0xffffffff)...))
	named(t, err, syscall.EPROTO) // a request with a status
	notice := unhex(t, goldenNotices[0].dump)
	_, _, err = DecodeRequest(notice)
	named(t, err, syscall.EPROTO)
	_, _, err = DecodeReply(put(notice, 16, word(0xffffffff)...))
	named(t, err, syscall.EPROTO)
	_, _, err = DecodeReply(put(notice, 12, 1))
	named(t, err, syscall.EPROTO)
}

// A request with a valid header is answered, whatever its body is.
func TestRequestRoundTrip(t *testing.T) {
	for _, o := range []Opcode{0, OpNop + 1, OpNotice + 1, 0xffff} {
		h, r, err := DecodeRequest(put(unhex(t, goldenRequests[1].dump), 6, byte(o), byte(o>>8)))
		named(t, err, syscall.EOPNOTSUPP)
		if r != nil || h != (Header{Opcode: o, Sequence: 2}) {
			t.Errorf("%v: %v of %+v", o, r, h)
		}
	}
	h, r, err := DecodeRequest(put(unhex(t, goldenRequests[2].dump), 24+12, 1))
	named(t, err, syscall.EINVAL)
	if r != nil || h != (Header{Opcode: OpAreaAdd, Sequence: 3}) {
		t.Errorf("%v of %+v", r, h)
	}
	reply, body, err2 := DecodeReply(AppendFailure(nil, h, err))
	if err2 != nil {
		t.Fatal(err2)
	}
	const want = "lnetd: AREA_ADD: area: reserved word at 12 1: must be 0: invalid argument"
	if err := reply.Failure(body); err.Error() != want || !errors.Is(err, syscall.EINVAL) {
		t.Errorf("answered by %q, want %q", err, want)
	}
}

// A record that would exceed the maximum length is not appended.
func TestTooLongRecords(t *testing.T) {
	before := []byte("before")
	fill := func(n int) []byte { return make([]byte, n) }
	nids := repeat(MaxNIDs+1, lnet.LoopbackNID)
	for _, c := range []struct {
		name          string
		fits, exceeds Body
	}{
		{"NOP", &Nop{Data: fill(MaxRecord - HeaderSize)}, &Nop{Data: fill(MaxRecord - HeaderSize + 1)}},
		{"BUF_REGISTER", &BufRegister{Ranges: make([]Range, MaxRanges)}, &BufRegister{Ranges: make([]Range, MaxRanges+1)}},
		{"NIDS_GET", &NIDsReply{NIDs: nids[1:]}, &NIDsReply{NIDs: nids}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := AppendReply(bytes.Clone(before), Header{}, c.fits)
			if n := len(b) - len(before); err != nil || n > MaxRecord || n <= MaxRecord-lnet.LargeNIDSize {
				t.Errorf("a record of %d bytes, %v", n, err)
			}
			b, err = AppendReply(bytes.Clone(before), Header{}, c.exceeds)
			named(t, err, syscall.EMSGSIZE)
			if !bytes.Equal(b, before) {
				t.Errorf("%d bytes left behind", len(b))
			}
		})
	}
	if _, err := AppendRequest(nil, 1, &Nop{Data: fill(MaxRecord)}); !errors.Is(err, syscall.EMSGSIZE) {
		t.Errorf("request: error %v", err)
	}
}

func repeat(n int, v lnet.NID) []lnet.NID {
	s := make([]lnet.NID, n)
	for i := range s {
		s[i] = v
	}
	return s
}

// AppendRequest keeps the bytes that the slice contains.
func TestRecordsAreAppended(t *testing.T) {
	want := append([]byte("before"), unhex(t, goldenRequests[0].dump)...)
	got, err := AppendRequest([]byte("before"), 1, goldenRequests[0].request)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%x (%v), want %x", got, err, want)
	}
}

// Every error has an errno on the wire.
func TestStatusOfFailures(t *testing.T) {
	for _, c := range []struct {
		err   error
		errno syscall.Errno
		text  string
	}{
		{syscall.EDQUOT, syscall.EDQUOT, ""},
		{fmt.Errorf("64 TMs: %w", syscall.EDQUOT), syscall.EDQUOT, "64 TMs"},
		{io.EOF, syscall.EIO, "EOF"},
		{fmt.Errorf("%w: 3", syscall.EBUSY), syscall.EBUSY, syscall.EBUSY.Error() + ": 3"},
		{fmt.Errorf("x: %w", syscall.Errno(0)), syscall.EIO, "x: " + syscall.Errno(0).Error()},
		{syscall.Errno(4095), 4095, ""},
		{syscall.Errno(4096), syscall.EIO, syscall.Errno(4096).Error()},
		{errors.New("a\x00b\nc\xffd~\x7f"), syscall.EIO, "a?b?c?d~?"},
		{errors.New(strings.Repeat("x", MaxText+1)), syscall.EIO, strings.Repeat("x", MaxText)},
	} {
		h, body, err := DecodeReply(AppendFailure(nil, Header{Opcode: OpNop, Sequence: 3}, c.err))
		if err != nil {
			t.Fatal(err)
		}
		same(t, Header{Opcode: OpNop, Sequence: 3, Status: c.errno}, h)
		same(t, error(&Failure{Opcode: OpNop, Errno: c.errno, Text: c.text}), h.Failure(body))
		cut := CutOff(c.err)
		if _, body, err = DecodeReply(AppendNotice(nil, &cut)); err != nil {
			t.Fatal(err)
		}
		var n Notice
		if err := n.Decode(body); err != nil || n.Errno() != c.errno || n.Text != c.text {
			t.Errorf("notice %+v (%v), want %v and %q", n, err, c.errno, c.text)
		}
	}
	if s := (&Failure{Opcode: OpTMStart, Errno: syscall.EACCES}).Error(); s != "lnetd: TM_START: permission denied" {
		t.Errorf("%q", s)
	}
	other := Notice{Kind: NoticeLimits, Value: 48}
	if other.Errno() != 0 {
		t.Errorf("errno %v of changed limits", other.Errno())
	}
}

// Texts with invalid contents do not affect the rest of the record.
func TestTextsFromThePeer(t *testing.T) {
	h := Header{Opcode: OpHello, Status: syscall.EACCES}
	body := append([]byte("no\x1b[31m"), bytes.Repeat([]byte{0x80}, MaxText)...)
	var f *Failure
	if err := h.Failure(body); !errors.As(err, &f) || f.Errno != syscall.EACCES || len(f.Text) != MaxText || f.Text[:8] != "no?[31m?" {
		t.Errorf("%v", err)
	}
	var n Notice
	if err := n.Decode(append(unhex(t, "09000000 ffffffff"), "a\tb"...)); err != nil || n != (Notice{Kind: 9, Value: -1, Text: "a?b"}) {
		t.Errorf("%+v, %v", n, err)
	}
	var hello Hello
	body = put(unhex(t, goldenRequests[0].dump)[HeaderSize:], 24, '\n', 0x80)
	if err := hello.Decode(body); err != nil || hello.Program != "??s" {
		t.Errorf("%q, %v", hello.Program, err)
	}
}

// Only AREA_ADD is accompanied by a file descriptor, and only the reply to TM_START, by three.
func TestDescriptorCounts(t *testing.T) {
	for o := range OpNotice + 2 {
		requests, replies := 0, 0
		switch o {
		case OpAreaAdd:
			requests = 1
		case OpTMStart:
			replies = 3
		}
		if o.RequestFDs() != requests || o.ReplyFDs() != replies {
			t.Errorf("%v: %d and %d, want %d and %d", o, o.RequestFDs(), o.ReplyFDs(), requests, replies)
		}
	}
}

// Opcodes, notices and features have names. Unknown ones are printed as numbers.
func TestNames(t *testing.T) {
	for want, got := range map[string]fmt.Stringer{
		"HELLO": OpHello, "NIDS_GET": OpNIDsGet, "AREA_ADD": OpAreaAdd, "AREA_DEL": OpAreaDel,
		"BUF_REGISTER": OpBufRegister, "BUF_DEREGISTER": OpBufDeregister, "TM_START": OpTMStart,
		"TM_STOP": OpTMStop, "STATS_GET": OpStatsGet, "NOP": OpNop, "NOTICE": OpNotice, "opcode 99": Opcode(99),
		"going down": NoticeGoingDown, "cut off": NoticeCutOff, "limits changed": NoticeLimits, "notice 9": NoticeKind(9),
		"0": Features(0), "POLLING|0x100": FeatPolling | 0x100,
		"LARGE_SEGMENTS|POLLING|OVERFLOW|ZERO_COPY|HUGE_PAGES": FeatLargeSegments | FeatPolling | FeatOverflow | FeatZeroCopy | FeatHugePages,
	} {
		if got.String() != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
