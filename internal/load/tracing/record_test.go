package tracing

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// switchFormat is the format of a tracepoint as the kernel describes it.
const switchFormat = `name: sched_switch
ID: 372
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:char prev_comm[16];	offset:8;	size:16;	signed:0;
	field:pid_t prev_pid;	offset:24;	size:4;	signed:1;
	field:long prev_state;	offset:32;	size:8;	signed:1;
	field:pid_t next_pid;	offset:56;	size:4;	signed:1;

print fmt: "prev_comm=%s", REC->prev_comm
`

// newDecoder returns a decoder that knows the tracepoint of switchFormat.
func newDecoder(t interface{ Fatal(...any) }) *decoder {
	p, err := parseFormat("sched/sched_switch", []byte(switchFormat))
	if err != nil {
		t.Fatal(err)
	}
	return &decoder{points: map[uint64]decodeFunc{p.ID: points[0].decoder(p)}, local: map[int]int{}}
}

// record returns a record with the given type and contents.
func record(typ uint32, body []byte) []byte {
	b := binary.NativeEndian.AppendUint32(nil, typ)
	b = binary.NativeEndian.AppendUint16(b, 0)
	b = binary.NativeEndian.AppendUint16(b, uint16(headerSize+len(body)))
	return append(b, body...)
}

// sample returns the body of a sample: data, as the thread tid sees it at a time on processor 3.
func sample(tid int, at int64, data []byte) []byte {
	b := binary.NativeEndian.AppendUint32(nil, 1)
	b = binary.NativeEndian.AppendUint32(b, uint32(tid))
	b = binary.NativeEndian.AppendUint64(b, uint64(at))
	b = binary.NativeEndian.AppendUint64(b, 3)
	b = binary.NativeEndian.AppendUint32(b, uint32(len(data)))
	return append(b, data...)
}

// switched returns the data of a switch between two threads, by their numbers in the first PID namespace.
func switched(prev, next int, state uint64) []byte {
	b := make([]byte, 64)
	binary.NativeEndian.PutUint16(b, 372)
	binary.NativeEndian.PutUint32(b[4:], uint32(prev))
	binary.NativeEndian.PutUint64(b[32:], state)
	binary.NativeEndian.PutUint32(b[56:], uint32(next))
	return b
}

// Switches are decoded. Numbers of threads are those of this PID namespace.
func TestDecode(t *testing.T) {
	d := newDecoder(t)
	err := d.decode(slices.Concat(
		record(unix.PERF_RECORD_SAMPLE, sample(7, 100, switched(1007, 1008, 1))),
		record(unix.PERF_RECORD_COMM, []byte("other records are ignored")),
		record(unix.PERF_RECORD_SAMPLE, sample(8, 200, switched(1008, 0, 0x100))),
		record(unix.PERF_RECORD_SAMPLE, sample(0, 300, switched(0, 1009, 0))),
		record(unix.PERF_RECORD_SAMPLE, sample(-1, 400, switched(1009, 1010, 0))),
		record(unix.PERF_RECORD_LOST, make([]byte, 16)),
	))
	if err != nil {
		t.Fatal(err)
	}
	d.finish()
	want := []Event{
		{At: 100, CPU: 3, TID: 7, Other: 8, Asleep: true},
		{At: 200, CPU: 3, TID: 8, Other: 0},
		{At: 300, CPU: 3, TID: 0, Other: -1009},
		{At: 400, CPU: 3, TID: -1009, Other: 1010},
	}
	if !slices.Equal(d.events, want) || d.lost != 0 {
		t.Errorf("%+v, %d lost, want %+v", d.events, d.lost, want)
	}
}

// Lost events are counted.
func TestDecodeLost(t *testing.T) {
	d := newDecoder(t)
	lost := make([]byte, 16)
	binary.NativeEndian.PutUint64(lost[8:], 5)
	if err := d.decode(slices.Concat(record(unix.PERF_RECORD_LOST, lost), record(unix.PERF_RECORD_LOST, lost))); err != nil || d.lost != 10 {
		t.Errorf("%d lost, %v", d.lost, err)
	}
}

// Invalid records are reported, and what precedes them is kept.
func TestDecodeHostile(t *testing.T) {
	good := record(unix.PERF_RECORD_SAMPLE, sample(7, 100, switched(7, 8, 1)))
	long := sample(7, 100, switched(7, 8, 1))
	binary.NativeEndian.PutUint32(long[sampleSize-4:], 1<<31)
	short := func(n int) []byte { return record(unix.PERF_RECORD_SAMPLE, sample(7, 100, switched(7, 8, 1)[:n])) }
	for name, b := range map[string][]byte{
		"half a header":                     good[:headerSize-1],
		"a record that ends later":          good[:len(good)-1],
		"a size of 0":                       make([]byte, headerSize),
		"a sample without time":             record(unix.PERF_RECORD_SAMPLE, make([]byte, sampleSize-1)),
		"more data than the record":         record(unix.PERF_RECORD_SAMPLE, long),
		"data without common fields":        short(commonSize - 1),
		"data without the last field":       short(59),
		"a count of lost events of 8 bytes": record(unix.PERF_RECORD_LOST, make([]byte, 8)),
	} {
		d := newDecoder(t)
		if err := d.decode(slices.Concat(good, b)); !errors.Is(err, errRecord) || len(d.events) != 1 {
			t.Errorf("%s: %v, and %d events", name, err, len(d.events))
		}
	}
	d := newDecoder(t)
	other := switched(7, 8, 1)
	binary.NativeEndian.PutUint16(other, 9)
	if err := d.decode(record(unix.PERF_RECORD_SAMPLE, sample(7, 100, other))); err != nil || len(d.events) != 0 {
		t.Errorf("another tracepoint: %v, and %d events", err, len(d.events))
	}
}

// No data makes the decoder panic.
func TestDecodeAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := record(unix.PERF_RECORD_SAMPLE, sample(7, 100, switched(7, 8, 1)))
		for range rapid.IntRange(0, 8).Draw(t, "changes") {
			b[rapid.IntRange(0, len(b)-1).Draw(t, "where")] = rapid.Byte().Draw(t, "byte")
		}
		d := newDecoder(t)
		_ = d.decode(b[:rapid.IntRange(0, len(b)).Draw(t, "length")]) // any result is right
		d.finish()
	})
}

// A format that cannot be used is reported.
func TestParseFormatHostile(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "no ID",
		"ID: x":                           "invalid syntax",
		"ID: 70000":                       "out of range",
		"ID: 1\nfield:;offset:0;size:4;":  "has no name",
		"ID: 1\nfield:int a;offset:-1;":   "invalid syntax",
		"ID: 1\nfield:int a;size:999999;": "out of range",
	} {
		if _, err := parseFormat("a/b", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	p, err := parseFormat("a/b", []byte(switchFormat))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.require("next_pid", "prev_comm[16]"); err == nil || !strings.Contains(err.Error(), "prev_comm[16]") {
		t.Errorf("a text is used as a number: %v", err)
	}
}

// The list of processors may have ranges. Other lists are errors.
func TestParseCPUs(t *testing.T) {
	if got, err := parseCPUs("0-2,5"); err != nil || !slices.Equal(got, []int{0, 1, 2, 5}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, list := range []string{"", "0-", "a", "0-99999999", "-1"} {
		if got, err := parseCPUs(list); err == nil {
			t.Errorf("%q: %v", list, got)
		}
	}
}
