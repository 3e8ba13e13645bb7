package lnet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

// The requests of lnet-wire 11.2.
var goldenRequests = []struct {
	name  string
	dump  string
	order interface {
		binary.ByteOrder
		binary.AppendByteOrder
	}
	version uint32
	nid     string
}{
	{"v1", "00 71 ce ac 01 00 00 00 14 01 a8 c0 00 00 02 00", binary.LittleEndian, 1, "192.168.1.20@tcp"},
	{"v1 big-endian", "ac ce 71 00 00 00 00 01 00 02 00 00 c0 a8 01 14", binary.BigEndian, 1, "192.168.1.20@tcp"},
	{"v2", `00 71 ce ac 02 00 00 00 0c 02 00 00 20 01 0d b8
	        00 00 00 00 00 00 00 00 00 00 00 20`, binary.LittleEndian, 2, "2001:db8::20@tcp"},
	{"v2 big-endian", `ac ce 71 00 00 00 00 02 0c 02 00 00 20 01 0d b8
	        00 00 00 00 00 00 00 00 00 00 00 20`, binary.BigEndian, 2, "2001:db8::20@tcp"},
	{"v2 of a 4-byte NID", `00 71 ce ac 02 00 00 00 00 02 00 00 c0 a8 01 14
	        00 00 00 00 00 00 00 00 00 00 00 00`, binary.LittleEndian, 2, "192.168.1.20@tcp"},
	{"refusal", "00 71 ce ac 01 00 00 00 00 00 00 00 00 00 00 00", binary.LittleEndian, 1, ""},
	{"refusal big-endian", "ac ce 71 00 00 00 00 01 00 00 00 00 00 00 00 00", binary.BigEndian, 1, ""},
}

// lnet-wire 1, 2.2 (2), 5.1, 5.2 (1), 11.2
func TestAcceptorRequestGolden(t *testing.T) {
	for _, tt := range goldenRequests {
		t.Run(tt.name, func(t *testing.T) {
			dump := unhex(t, tt.dump)
			want := AcceptorRequest{Version: tt.version}
			if tt.nid != "" {
				want.NID = mustNID(t, tt.nid)
			}
			got, order, err := DecodeAcceptorRequest(append(dump, "and a HELLO"...))
			if err != nil || got != want || order != binary.ByteOrder(tt.order) {
				t.Fatalf("decodes to %+v, %v, %v, want %+v", got, order, err, want)
			}
			if b := want.Append([]byte{9}, tt.order); !bytes.Equal(b[1:], dump) {
				t.Errorf("encodes to % x, want % x", b[1:], dump)
			}
			if size := AcceptorRequestSize(tt.version); size != len(dump) {
				t.Errorf("size %d, want %d", size, len(dump))
			}
			if tt.nid == "" {
				if b := AppendAcceptorRefusal(nil, tt.order); !bytes.Equal(b, dump) {
					t.Errorf("AppendAcceptorRefusal = % x, want % x", b, dump)
				}
			}
		})
	}
}

// lnet-wire 5.2 (2)
func TestAcceptorRequestChoosesVersion(t *testing.T) {
	for _, tt := range []struct {
		nid          string
		asked, given uint32
	}{
		{"10.0.0.1@tcp", 0, 1},
		{"10.0.0.1@tcp", 1, 1},
		{"10.0.0.1@tcp", 2, 2},
		{"2001:db8::1@tcp", 0, 2},
		{"2001:db8::1@tcp", 1, 2}, // must not truncate the address
		{"2001:db8::1@tcp", 2, 2},
	} {
		want := mustNID(t, tt.nid)
		b := AcceptorRequest{Version: tt.asked, NID: want}.Append(nil, binary.LittleEndian)
		got, _, err := DecodeAcceptorRequest(b)
		if err != nil || got.Version != tt.given || got.NID != want {
			t.Errorf("%v as version %d gives %+v, %v", want, tt.asked, got, err)
		}
	}
}

func TestAcceptorRequestNeed(t *testing.T) {
	for _, tt := range goldenRequests {
		b := unhex(t, tt.dump)
		for n := range len(b) + 5 {
			want := 4
			switch {
			case n >= 8:
				want = len(b)
			case n >= 4:
				want = 8
			}
			if got, err := AcceptorRequestNeed(append(b, 1, 2, 3, 4, 5)[:n]); got != want || err != nil {
				t.Errorf("%s: of %d bytes, %d, %v are needed, want %d", tt.name, n, got, err, want)
			}
		}
	}
}

// lnet-wire 5.4 (4)-(5)
func TestAcceptorRequestRefuses(t *testing.T) {
	magic := func(err error) bool { return errors.As(err, new(*MagicError)) }
	version := func(err error) bool { return errors.As(err, new(*VersionError)) }
	query := func(err error) bool { return errors.Is(err, ErrProtocolQuery) }
	field := func(err error) bool { return errors.As(err, new(*FieldError)) }
	for _, tt := range []struct {
		name   string
		dump   string
		is     func(error) bool
		answer bool
	}{
		{"old socknal", "ed 0d bc ee", magic, false},
		{"something else", "47 45 54 20 2f 20 48 54 54 50 2f 31 2e 31 0d 0a", magic, false},
		{"query", "63 69 72 45", query, true},
		{"query, big-endian", "45 72 69 63", query, true},
		{"version 0", "00 71 ce ac 00 00 00 00", version, true},
		{"version 3", "00 71 ce ac 03 00 00 00", version, true},
		{"version 1 in the other order", "00 71 ce ac 00 00 00 01", version, true},
		{"version 3, big-endian", "ac ce 71 00 00 00 00 03", version, true},
		{"v1, reserved bits", "00 71 ce ac 01 00 00 00 14 01 a8 c0 00 00 02 01", field, false},
		{"v2, size 4", `00 71 ce ac 02 00 00 00 04 02 00 00 20 01 0d b8
		                00 00 00 00 00 00 00 00 00 00 00 20`, field, false},
		{"v2, bytes after a short address", `00 71 ce ac 02 00 00 00 00 02 00 00 20 01 0d b8
		                00 00 00 00 00 00 00 00 00 00 00 20`, field, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, order, err := DecodeAcceptorRequest(unhex(t, tt.dump))
			var refused *AcceptorError
			if !tt.is(err) || !errors.As(err, &refused) || refused.Answer != tt.answer {
				t.Errorf("error %v (%+v)", err, refused)
			}
			wantNamed(t, err)
			if r != (AcceptorRequest{}) || order != nil {
				t.Errorf("gives %+v, %v beside the error", r, order)
			}
		})
	}
}

func TestAcceptorRequestTruncation(t *testing.T) {
	for _, tt := range goldenRequests {
		everyTruncation(t, unhex(t, tt.dump), func(b []byte) error {
			_, _, err := DecodeAcceptorRequest(b)
			return err
		})
	}
}

func TestAcceptorRequestBitFlips(t *testing.T) {
	for _, tt := range goldenRequests {
		b := unhex(t, tt.dump)
		everyBitFlip(t, b, 0, len(b), func(b []byte) error {
			r, _, err := DecodeAcceptorRequest(b)
			if err != nil && r != (AcceptorRequest{}) {
				t.Errorf("%s: error %v beside %+v", tt.name, err, r)
			}
			return err
		})
	}
}

func TestAcceptorRequestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := AcceptorRequest{Version: 1, NID: genNID().Draw(t, "nid")}
		if want.NID.IsLarge() || rapid.Bool().Draw(t, "version 2") {
			want.Version = 2
		}
		for _, o := range byteOrders {
			b := want.Append(nil, o.append)
			if len(b) != AcceptorRequestSize(want.Version) || len(b) > MaxAcceptorRequestSize {
				t.Fatalf("%s: %d bytes", o.name, len(b))
			}
			got, order, err := DecodeAcceptorRequest(b)
			if err != nil || got != want || order != o.read {
				t.Fatalf("%s: got %+v, %v, %v", o.name, got, order, err)
			}
		}
	})
}
