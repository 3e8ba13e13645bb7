package protocol

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/lnet"
)

// goldenAttach is a request for 192.168.1.20@tcp1.
const goldenAttach = `
	55504c4e 0100 0000 01000200
	00020001 c0a80114 00000000 00000000 00000000
	6d70693a342f37000000000000000000 00000000000000000000000000000000`

// goldenAttached is the answer for the NID 2001:db8::20@tcp.
const goldenAttached = `
	55504c4e 0100 0000 00000000
	0c020000 20010db8 00000000 00000000 00000020
	0000400000000000 00743ba40b000000`

const goldenFailure = `
	55504c4e 0100 0000 f0ffffff
	6f6e652069732074686572652c207e`

// Records byte by byte.
//
// UP-2
func TestGoldenRecords(t *testing.T) {
	a := Attach{Net: lnet.MakeNet(lnet.TypeTCP, 1), NID: nid("192.168.1.20@tcp1"), Name: "mpi:4/7"}
	sameBytes(t, a.Append(nil), goldenAttach)
	var b Attach
	if err := b.Decode(a.Append(nil)); err != nil || b != a {
		t.Errorf("decoded %+v, %v", b, err)
	}
	d := Attached{NID: nid("2001:db8::20@tcp"), AreaSize: 4 << 20, Timeout: 50 * time.Second}
	sameBytes(t, d.Append(nil), goldenAttached)
	if got, err := DecodeAnswer(d.Append(nil)); err != nil || *got != d {
		t.Errorf("decoded %+v, %v", got, err)
	}
	f := Failure{Errno: syscall.EBUSY, Text: "one is there, ~"}
	sameBytes(t, f.Append(nil), goldenFailure)
	checkFailure(t, f.Append(nil), f)
}

// checkFailure checks that an answer is a failure.
func checkFailure(t *testing.T, b []byte, want Failure) {
	t.Helper()
	a, err := DecodeAnswer(b)
	var got *Failure
	if !errors.As(err, &got) || *got != want || a != nil || !errors.Is(err, want.Errno) {
		t.Errorf("decoded %+v, %v, want %+v", a, err, want)
	}
	if text := "lnetd: " + want.Text + ": " + want.Errno.Error(); err.Error() != text {
		t.Errorf("error %q, want %q", err, text)
	}
}

// Each record is appended, and decoding returns the encoded values.
func TestRecordsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(t, "before")
		appended := func(b []byte, size int) []byte {
			if !bytes.Equal(b[:len(before)], before) || len(b) != len(before)+size {
				t.Fatalf("%x became %x, want %d bytes more", before, b, size)
			}
			return b[len(before):]
		}
		name := "x" + drawText(t, MaxName-1)
		a, a2 := Attach{Net: lnet.Net(rapid.Uint32().Draw(t, "net")), NID: drawNID(t), Name: name}, Attach{Name: "before"}
		if err := a2.Decode(appended(a.Append(before), AttachSize)); err != nil || a2 != a {
			t.Fatalf("%+v became %+v, %v", a, a2, err)
		}
		d := Attached{
			NID: drawNID(t), AreaSize: 2 * MaxBuffer * rapid.IntRange(1, MaxArea/2/MaxBuffer).Draw(t, "area"),
			Timeout: time.Duration(rapid.Int64Min(0).Draw(t, "timeout")),
		}
		if d2, err := DecodeAnswer(appended(d.Append(before), AttachedSize)); err != nil || *d2 != d {
			t.Fatalf("%+v became %+v, %v", d, d2, err)
		}
		f := Failure{Errno: syscall.Errno(rapid.IntRange(1, maxErrno).Draw(t, "errno")), Text: drawText(t, MaxRecord-failHead)}
		var f2 *Failure
		if _, err := DecodeAnswer(appended(f.Append(before), failHead+len(f.Text))); !errors.As(err, &f2) || *f2 != f {
			t.Fatalf("%+v became %+v", f, f2)
		}
	})
}

// put returns a copy of b with other bytes at an offset.
func put(b []byte, offset int, v ...byte) []byte {
	b = bytes.Clone(b)
	copy(b[offset:], v)
	return b
}

func u64(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }

// refused checks an error of Decode or DecodeAnswer.
func refused(t *testing.T, err error, what, field string, errno syscall.Errno) {
	t.Helper()
	checkField(t, err, what, field)
	var failure *Failure
	if !errors.Is(err, errno) || errors.As(err, &failure) {
		t.Errorf("error %v, want %v", err, errno)
	}
}

// The first 8 bytes are checked in each record.
func TestInvalidHeads(t *testing.T) {
	attach := Attach{Name: "x"}
	attached := Attached{AreaSize: 2 * MaxBuffer}
	failure := Failure{Errno: syscall.EIO, Text: "text"}
	for _, c := range []struct {
		field string
		at    int
		value byte
	}{
		{"magic", 0, 'N'}, {"magic", 1, 'L'}, {"magic", 2, 'P'}, {"magic", 3, 'U'}, {"magic", 3, 0},
		{"version", 4, 0}, {"version", 4, 2}, {"version", 5, 1}, {"reserved bytes", 6, 1}, {"reserved bytes", 7, 0x80},
	} {
		var a Attach
		refused(t, a.Decode(put(attach.Append(nil), c.at, c.value)), "record", c.field, syscall.EPROTO)
		for _, b := range [][]byte{attached.Append(nil), failure.Append(nil)} {
			answer, err := DecodeAnswer(put(b, c.at, c.value))
			refused(t, err, "record", c.field, syscall.EPROTO)
			if answer != nil {
				t.Errorf("%+v and %v", answer, err)
			}
		}
	}
}

// A record of any other length is refused. Only a failure can have different lengths.
func TestRecordLengths(t *testing.T) {
	attach := Attach{Name: "x"}
	attached := Attached{AreaSize: 2 * MaxBuffer}
	for n := range 2 * AttachSize {
		if n != AttachSize {
			b := append(attach.Append(nil), make([]byte, AttachSize)...)
			var a Attach
			refused(t, a.Decode(b[:n]), "record", "length", syscall.EPROTO)
		}
		if n != AttachedSize {
			b := append(attached.Append(nil), make([]byte, 2*AttachSize)...)
			_, err := DecodeAnswer(b[:n])
			refused(t, err, "record", "length", syscall.EPROTO)
		}
	}
	const text = "the proxy has broken the protocol"
	failure := Failure{Errno: syscall.EPROTO, Text: text}
	b := failure.Append(nil)
	for n := range b {
		if n < failHead {
			_, err := DecodeAnswer(b[:n])
			refused(t, err, "record", "length", syscall.EPROTO)
		} else {
			checkFailure(t, b[:n], Failure{Errno: syscall.EPROTO, Text: text[:n-failHead]})
		}
	}
}

// A request with an invalid field is refused with EINVAL. An answer with one breaks the protocol.
func TestInvalidRecords(t *testing.T) {
	attach := Attach{NID: lnet.LoopbackNID, Name: "abc"}
	good := attach.Append(nil)
	for _, c := range []struct {
		what, field string
		at          int
		value       []byte
	}{
		{"NID", "nid_size", 12, []byte{4}}, {"NID", "nid_addr", 31, []byte{1}},
		{"record", "name", 32, make([]byte, MaxName+1)},
		{"record", "name", 32, bytes.Repeat([]byte{'x'}, MaxName+1)},
		{"record", "name", 32, []byte{0}}, {"record", "name", 33, []byte{0}}, {"record", "name", 36, []byte{'x'}},
		{"record", "name", 63, []byte{'x'}}, {"record", "name", 34, []byte{'\n'}}, {"record", "name", 34, []byte{' ' - 1}},
		{"record", "name", 34, []byte{'~' + 1}}, {"record", "name", 34, []byte{0x80}}, {"record", "name", 34, []byte{0xff}},
	} {
		var a Attach
		refused(t, a.Decode(put(good, c.at, c.value...)), c.what, c.field, syscall.EINVAL)
	}
	attached := Attached{NID: lnet.LoopbackNID, AreaSize: 2 * MaxBuffer}
	good = attached.Append(nil)
	for _, size := range []uint64{
		0, 1, MaxBuffer, 2*MaxBuffer - 1, 2*MaxBuffer + 1, 3 * MaxBuffer, MaxArea + 1, MaxArea + 2*MaxBuffer, 1 << 32, 1 << 63, math.MaxUint64,
	} {
		_, err := DecodeAnswer(put(good, 32, u64(size)...))
		refused(t, err, "record", "area", syscall.EPROTO)
	}
	for _, timeout := range []uint64{1 << 63, math.MaxUint64} {
		_, err := DecodeAnswer(put(good, 40, u64(timeout)...))
		refused(t, err, "record", "timeout", syscall.EPROTO)
	}
	for at, field := range map[int]string{12: "nid_size", 31: "nid_addr"} {
		_, err := DecodeAnswer(put(good, at, 1))
		refused(t, err, "NID", field, syscall.EPROTO)
	}
	for _, status := range []int32{1, math.MaxInt32, -maxErrno - 1, math.MinInt32} {
		_, err := DecodeAnswer(put(good, 8, binary.LittleEndian.AppendUint32(nil, uint32(status))...))
		refused(t, err, "record", "status", syscall.EPROTO)
	}
}

// Validate returns the error of Decode before there is a record.
func TestValidateNames(t *testing.T) {
	for name, valid := range map[string]bool{
		"x": true, "x ~": true, strings.Repeat("x", MaxName): true,
		"": false, strings.Repeat("x", MaxName+1): false, "a\x00": false, "tab\t": false, "\x7f": false, "Ü": false,
	} {
		a := Attach{Name: name}
		if err := a.Validate(); valid && err != nil {
			t.Error(err)
		} else if !valid {
			refused(t, err, "record", "name", syscall.EINVAL)
		}
	}
}

// The text of a failure is printable and not too long, on the way in and on the way out.
func TestFailureTexts(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "",
		"a\nb\x00c\x7fd\xff":              "a?b?c?d?",
		"größer":                          "gr????er",
		strings.Repeat("y", MaxRecord-12): strings.Repeat("y", MaxRecord-12),
		strings.Repeat("\n", 2*MaxRecord): strings.Repeat("?", MaxRecord-12),
		strings.Repeat("z", MaxRecord-11): strings.Repeat("z", MaxRecord-12),
	} {
		f := Failure{Errno: maxErrno, Text: text}
		b := f.Append(nil)
		if len(b) > MaxRecord {
			t.Errorf("%d bytes", len(b))
		}
		checkFailure(t, b, Failure{Errno: maxErrno, Text: want})
		checkFailure(t, append(b[:failHead:failHead], text...), Failure{Errno: maxErrno, Text: want})
	}
}
