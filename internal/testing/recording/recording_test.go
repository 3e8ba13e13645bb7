package recording

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnet"
)

// appendOrder returns the byte order as one that can append.
func appendOrder(o binary.ByteOrder) binary.AppendByteOrder {
	if o == binary.ByteOrder(binary.BigEndian) {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

func load(t testing.TB, name string) *Recording {
	t.Helper()
	rec, err := Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// Counts from the notes beside each recording. For o3 to o7 they are the packets and connections that
// tshark counts.
var recorded = []struct {
	name    string
	packets int
	skipped int // packets of connections that started before the recording
	count   map[string]int
}{
	{"a-tcp-ping-discovery-on", 43, 0,
		map[string]int{"ACK": 2, "CONNREQ": 3, "GET": 4, "HELLO": 6, "PUT": 2, "REPLY": 4, "SYN": 3}},
	{"b-tcp-ping-discovery-off", 58, 0,
		map[string]int{"CONNREQ": 3, "GET": 3, "HELLO": 6, "PUT": 14, "REPLY": 3, "SYN": 3}},
	{"c-multirail-discovery", 107, 0,
		map[string]int{"ACK": 4, "CONNREQ": 6, "GET": 1, "HELLO": 12, "PUT": 28, "REPLY": 1, "SYN": 6}},
	{"d-lst-ping", 172, 0,
		map[string]int{"ACK": 6, "CONNREQ": 9, "GET": 4, "HELLO": 18, "PUT": 64, "REPLY": 4, "SYN": 9}},
	{"e-lst-brw-write-1m", 253, 0,
		map[string]int{"ACK": 2, "CONNREQ": 3, "GET": 3, "HELLO": 6, "NOOP": 2, "PUT": 14, "REPLY": 3, "SYN": 3}},
	{"e-lst-brw-write-4k", 99, 0,
		map[string]int{"ACK": 2, "CONNREQ": 3, "GET": 7, "HELLO": 6, "PUT": 30, "REPLY": 7, "SYN": 3}},
	{"e4-min-bulk-threshold", 136, 0,
		map[string]int{"ACK": 2, "CONNREQ": 3, "GET": 6, "HELLO": 6, "PUT": 52, "REPLY": 6, "SYN": 3}},
	{"f-lst-brw-read-1m", 238, 0,
		map[string]int{"ACK": 2, "CONNREQ": 3, "GET": 1, "HELLO": 6, "NOOP": 2, "PUT": 16, "REPLY": 1, "SYN": 3}},
	{"f-lst-brw-read-4k", 89, 0,
		map[string]int{"ACK": 2, "CONNREQ": 3, "GET": 1, "HELLO": 6, "PUT": 36, "REPLY": 1, "SYN": 3}},
	{"i-routed-tcp-tcp1", 313, 0,
		map[string]int{"ACK": 18, "CONNREQ": 6, "GET": 18, "HELLO": 12, "NOOP": 2, "PUT": 92, "REPLY": 18, "SYN": 6}},
	{"j-ipv6-large-nid", 78, 0,
		map[string]int{"ACK": 4, "CONNREQ": 6, "GET": 4, "HELLO": 12, "PUT": 4, "REPLY": 4, "SYN": 6}},
	{"o3-o2ib-router-tcp", 319, 99,
		map[string]int{"CONNREQ": 2, "HELLO": 4, "NOOP": 3, "REPLY": 6, "SYN": 2}},
	{"o6-tcp-rail-cut-recovery", 238, 0,
		map[string]int{"ACK": 2, "CONNREQ": 11, "GET": 22, "HELLO": 22, "NOOP": 2, "PUT": 2, "REPLY": 21, "SYN": 11}},
	{"o7-tcp-net-del-add-push", 218, 0,
		map[string]int{"ACK": 12, "CONNREQ": 15, "GET": 2, "HELLO": 30, "PUT": 12, "REPLY": 2, "SYN": 15}},
}

func TestCountsAreThoseOfTheNotes(t *testing.T) {
	var names []string
	for _, c := range recorded {
		names = append(names, c.name)
		t.Run(c.name, func(t *testing.T) {
			rec := load(t, c.name)
			t.Logf("%d of %d packets skipped", rec.Skipped, rec.Packets)
			if rec.Packets != c.packets || rec.Skipped != c.skipped {
				t.Errorf("%d packets, %d skipped, want %d and %d", rec.Packets, rec.Skipped, c.packets, c.skipped)
			}
			count := map[string]int{"SYN": len(rec.Conversations)}
			for _, conversation := range rec.Conversations {
				units, err := conversation.Units()
				if err != nil {
					t.Error(err)
				}
				for i := range units {
					count[units[i].Name()]++
				}
			}
			if diff := cmp.Diff(c.count, count); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if diff := cmp.Diff(Names(), names); diff != "" {
		t.Errorf("recordings without counts (-there +counted):\n%s", diff)
	}
}

// Everything that a kernel sent can be decoded and encodes to the same bytes: acceptor requests, HELLOs,
// frames, headers and ping infos.
func TestEverythingRecordedEncodesToTheSameBytes(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			for _, c := range load(t, name).Conversations {
				units, err := c.Units()
				if err != nil {
					t.Error(err)
				}
				for i := range units {
					u := &units[i]
					again, err := encode(&u.Unit)
					if err != nil {
						t.Errorf("%v %s at %v: %v", u.From, u.Name(), u.End, err)
					}
					if !bytes.Equal(again, u.Raw) {
						t.Errorf("%v %s at %v:\n%x\nwas\n%x", u.From, u.Name(), u.End, again, u.Raw)
					}
				}
			}
		})
	}
}

// encode encodes the values of a unit.
func encode(u *Unit) ([]byte, error) {
	order := appendOrder(u.Order)
	switch u.Kind {
	case KindRequest:
		return u.Request.Append(nil, order), nil
	case KindHello:
		return u.Hello.Append(nil, order)
	}
	b := u.Frame.Append(nil, order)
	if u.Kind == KindNoop {
		return b, nil
	}
	b, err := u.Version.AppendHeader(b, &u.Header)
	return append(b, u.Payload...), err
}

// Every byte of a stream belongs to a unit.
func TestUnitsCoverTheStreams(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			for _, c := range load(t, name).Conversations {
				units, err := c.Units()
				if err != nil {
					t.Error(err)
				}
				var streams [2][]byte
				for i := range units {
					u := &units[i]
					if u.Offset != len(streams[u.From]) {
						t.Errorf("%v %s at byte %d, want %d", u.From, u.Name(), u.Offset, len(streams[u.From]))
					}
					if u.Begin.After(u.End) || u.Begin.Before(c.Opened) {
						t.Errorf("%v %s from %v to %v", u.From, u.Name(), u.Begin, u.End)
					}
					streams[u.From] = append(streams[u.From], u.Raw...)
				}
				for _, side := range []Side{Active, Passive} {
					if !bytes.Equal(streams[side], c.Stream(side)) {
						t.Errorf("%v side: %d bytes of %d", side, len(streams[side]), len(c.Stream(side)))
					}
				}
			}
		})
	}
}

// Number of ping replies and pushes, according to the notes (those of i list only some).
var pingInfos = map[string]int{
	"a-tcp-ping-discovery-on":  6,
	"b-tcp-ping-discovery-off": 3,
	"c-multirail-discovery":    5,
	"d-lst-ping":               9,
	"e-lst-brw-write-1m":       3,
	"e-lst-brw-write-4k":       3,
	"e4-min-bulk-threshold":    3,
	"f-lst-brw-read-1m":        3,
	"f-lst-brw-read-4k":        3,
	"i-routed-tcp-tcp1":        32,
	"j-ipv6-large-nid":         8,
	"o3-o2ib-router-tcp":       0, // all in the skipped connection
	"o6-tcp-rail-cut-recovery": 23,
	"o7-tcp-net-del-add-push":  14,
}

func TestEveryPingInfoEncodesToTheSameBytes(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			infos, err := load(t, name).PingInfos()
			if err != nil {
				t.Fatal(err)
			}
			for _, payload := range infos {
				info, err := lnet.DecodePingInfo(payload, lnet.InterfacesMax)
				if err != nil {
					t.Errorf("%x: %v", payload, err)
					continue
				}
				if again := info.Append(nil, binary.LittleEndian); !bytes.Equal(again, payload) {
					t.Errorf("%+v encodes to\n%x\nwas\n%x", info, again, payload)
				}
				if info.Size() != len(payload) {
					t.Errorf("Size() = %d, want %d", info.Size(), len(payload))
				}
			}
			if len(infos) != pingInfos[name] {
				t.Errorf("%d ping infos, want %d", len(infos), pingInfos[name])
			}
		})
	}
}
