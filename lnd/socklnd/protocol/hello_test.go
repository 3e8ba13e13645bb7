package protocol

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/lnet"
)

// anyOrder has the methods of both byte order types of encoding/binary.
type anyOrder interface {
	binary.ByteOrder
	binary.AppendByteOrder
}

func orderOf(bigEndian bool) anyOrder {
	if bigEndian {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// equalNIDs lets cmp compare values that contain NIDs.
var equalNIDs = cmp.Comparer(func(a, b lnet.NID) bool { return a == b })

var equalAddrs = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

// socklnd 4.1, 4.2, 4.3, 21 (1)
func TestHelloExamplesEncodeAndDecode(t *testing.T) {
	for _, c := range helloExamples {
		t.Run(c.name, func(t *testing.T) {
			wire, order := unhex(t, c.dump), orderOf(c.bigEndian)

			got, err := c.hello.Append([]byte("before"), order)
			if err != nil {
				t.Fatal(err)
			}
			if want := append([]byte("before"), wire...); !bytes.Equal(got, want) {
				t.Errorf("encoded\n%x\nwant\n%x", got, want)
			}
			if c.hello.Size() != len(wire) {
				t.Errorf("Size() = %d, want %d", c.hello.Size(), len(wire))
			}

			h, gotOrder, err := DecodeHello(wire)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.hello, h, equalNIDs, equalAddrs); diff != "" {
				t.Errorf("decoded (-want +got):\n%s", diff)
			}
			if gotOrder != binary.ByteOrder(order) {
				t.Errorf("byte order %v, want %v", gotOrder, order)
			}
		})
	}
}

// A reader that calls HelloNeed after every byte never reads past the HELLO. The result is never
// less than what it has read, and is equal to it at the end of the HELLO.
//
// socklnd 5.1 (4)
func TestHelloNeedGrowsStepByStep(t *testing.T) {
	for _, c := range helloExamples {
		t.Run(c.name, func(t *testing.T) {
			wire := unhex(t, c.dump)
			for n := range wire {
				need, err := HelloNeed(wire[:n])
				if err != nil {
					t.Fatalf("after %d bytes: %v", n, err)
				}
				if need <= n || need > len(wire) {
					t.Errorf("after %d bytes: need %d of %d", n, need, len(wire))
				}
				if _, _, err := DecodeHello(wire[:n]); !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("decoding %d bytes: %v, want io.ErrUnexpectedEOF", n, err)
				}
			}
			more := append(bytes.Clone(wire), 0xc1, 0, 0, 0)
			for _, b := range [][]byte{wire, more} {
				if need, err := HelloNeed(b); need != len(wire) || err != nil {
					t.Errorf("HelloNeed of %d bytes: %d, %v, want %d", len(b), need, err, len(wire))
				}
			}
			if _, _, err := DecodeHello(more); err == nil {
				t.Error("decoded with bytes behind it")
			}
		})
	}
}

func TestHelloNeedIsDecidedAsEarlyAsPossible(t *testing.T) {
	v3 := unhex(t, helloExamples[0].dump)
	v2 := unhex(t, helloExamples[7].dump)
	tests := []struct {
		name  string
		bytes []byte
		need  int
	}{
		{"nothing", nil, 4},
		{"part of the magic", v3[:3], 4},
		{"magic", v3[:4], 8},
		{"version", v3[:8], 56},
		{"fixed part of two addresses", v2[:56], 64},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			if need, err := HelloNeed(c.bytes); need != c.need || err != nil {
				t.Errorf("got %d, %v, want %d", need, err, c.need)
			}
		})
	}
}

// put returns a copy of b with other bytes at offset.
func put(b []byte, offset int, with ...byte) []byte {
	b = bytes.Clone(b)
	copy(b[offset:], with)
	return b
}

// socklnd 4.4 (2), 5.1 (1)-(2), 5.1 (5)
func TestHelloRejects(t *testing.T) {
	v3 := unhex(t, helloExamples[0].dump)
	v3be := unhex(t, helloExamples[6].dump)
	v2 := unhex(t, helloExamples[7].dump)
	v1 := unhex(t, helloExamples[8].dump)
	v4 := unhex(t, helloExamples[9].dump)
	ff := bytes.Repeat([]byte{0xff}, 20)
	tests := []struct {
		name  string
		bytes []byte
		want  string
	}{
		{"magic of the acceptor", put(v3, 0, 0x00, 0x71, 0xce, 0xac), "hello: unknown magic 0xacce7100"},
		{"swapped magic of V1", put(v1, 0, 0xee, 0xbc, 0x0d, 0xed), "hello: unknown magic 0xed0dbcee"},
		{"version 0", put(v3, 4, 0), "hello: unknown version 0"},
		{"version 1 with the new magic", put(v3, 4, 1), "hello: unknown version 1"},
		{"version 5", put(v3, 4, 5), "hello: unknown version 5"},
		{"version 9, big-endian", put(v3be, 7, 9), "hello: unknown version 9"},
		{"V1 minor 2", put(v1, 6, 2), "hello: unknown version 131073"},
		{"17 addresses", put(v2, 52, 17), "nips"},
		{"2^32-1 addresses", put(v2, 52, 0xff, 0xff, 0xff, 0xff), "nips"},
		{"V1 17 addresses", put(v1, 28, 17*4), "nips"},
		{"V1 odd payload", put(v1, 28, 5), "payload_length"},
		{"V1 not a HELLO", put(v1, 24, 1), "type"},
		{"zero address", put(v2, 60, 0, 0, 0, 0), "ips"},
		{"wildcard source", put(v3, 8, ff[:8]...), "src_nid"},
		{"V1 wildcard source", put(v1, 8, ff[:8]...), "src_nid"},
		{"V4 wildcard source", put(v4, 8, ff...), "src_nid"},
		{"V4 wildcard source by its type alone", put(v4, 9, 0xff), "src_nid"},
		{"no source", put(v3, 8, make([]byte, 8)...), "src_nid"},
		{"V4 no source", put(v4, 8, make([]byte, 20)...), "src_nid"},
		{"source with reserved bits", put(v3, 15, 1), "src_nid"},
		{"V4 source of 21 bytes", put(v4, 8, 13), "src_nid"},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			h, _, err := DecodeHello(c.bytes)
			if err == nil {
				t.Fatalf("decoded to %+v", h)
			}
			if !bytes.Contains([]byte(err.Error()), []byte(c.want)) {
				t.Errorf("error %q does not say %q", err, c.want)
			}
			if diff := cmp.Diff(Hello{}, h, equalNIDs, equalAddrs); diff != "" {
				t.Errorf("half decoded:\n%s", diff)
			}
			if !named(err) {
				t.Errorf("error %T is none of the documented ones", err)
			}
		})
	}
}

// socklnd 5.1 (3)
func TestUnknownVersionIsKnownAfterEightBytes(t *testing.T) {
	be := []byte{0x45, 0x72, 0x69, 0x63, 0, 0, 0, 9}
	_, err := HelloNeed(be)
	var unknown *UnknownVersionError
	if !errors.As(err, &unknown) {
		t.Fatalf("got %v", err)
	}
	if unknown.Version != 9 || unknown.Order != binary.ByteOrder(binary.BigEndian) {
		t.Errorf("got %+v", unknown)
	}
}

func named(err error) bool {
	var (
		magic   *MagicError
		version *UnknownVersionError
		field   *lnet.FieldError
	)
	return errors.As(err, &magic) || errors.As(err, &version) || errors.As(err, &field) ||
		errors.Is(err, io.ErrUnexpectedEOF)
}

// If any single bit is wrong, DecodeHello returns an error for the field, or decodes a value that
// encodes to the same bytes.
func TestHelloWithOneBitFlipped(t *testing.T) {
	for _, c := range helloExamples {
		wire := unhex(t, c.dump)
		for bit := range 8 * len(wire) {
			b := bytes.Clone(wire)
			b[bit/8] ^= 1 << (bit % 8)
			need, err := HelloNeed(b)
			if need > MaxHelloSize {
				t.Fatalf("%s bit %d: asks for %d bytes", c.name, bit, need)
			}
			if err != nil && !named(err) {
				t.Fatalf("%s bit %d: HelloNeed: %T", c.name, bit, err)
			}
			checkDecodeHello(t, b)
		}
	}
}

// checkDecodeHello decodes b and encodes it again.
func checkDecodeHello(t interface {
	Helper()
	Fatalf(string, ...any)
}, b []byte) {
	t.Helper()
	h, order, err := DecodeHello(b)
	if err != nil {
		if !named(err) {
			t.Fatalf("%x: error %T", b, err)
		}
		return
	}
	again, err := h.Append(nil, orderOf(order == binary.ByteOrder(binary.BigEndian)))
	if err != nil {
		t.Fatalf("%x: decoded to %+v, which does not encode: %v", b, h, err)
	}
	h2, _, err := DecodeHello(again)
	if err != nil {
		t.Fatalf("%x: encoded again: %v", b, err)
	}
	if diff := cmp.Diff(h, h2, equalNIDs, equalAddrs); diff != "" {
		t.Fatalf("%x: decoded twice:\n%s", b, diff)
	}
}

func TestHelloAppendRefusesWhatItCannotCarry(t *testing.T) {
	ip := netip.MustParseAddr("10.0.0.1")
	tests := []struct {
		name string
		edit func(*Hello)
	}{
		{"version 0", func(h *Hello) { h.Version = 0 }},
		{"version 5", func(h *Hello) { h.Version = 5 }},
		{"large source", func(h *Hello) { h.Src = nidA6 }},
		{"large destination", func(h *Hello) { h.Dst = nidB6 }},
		{"large source in V1", func(h *Hello) { h.Version, h.Src = V1, nidA6 }},
		{"no source", func(h *Hello) { h.Src = lnet.NID{} }},
		{"wildcard source", func(h *Hello) { h.Src = lnet.AnyNID }},
		{"wildcard source in V4", func(h *Hello) { h.Version, h.Src = V4, lnet.AnyNID }},
		{"addresses in V4", func(h *Hello) { h.Version, h.IPs = V4, []netip.Addr{ip} }},
		{"17 addresses", func(h *Hello) {
			for range 17 {
				h.IPs = append(h.IPs, ip)
			}
		}},
		{"IPv6 address", func(h *Hello) { h.IPs = []netip.Addr{netip.MustParseAddr("fd77::11")} }},
		{"zero address", func(h *Hello) { h.IPs = []netip.Addr{netip.IPv4Unspecified()} }},
		{"no address", func(h *Hello) { h.IPs = []netip.Addr{{}} }},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			h := helloAB(c.edit)
			b, err := h.Append([]byte("before"), binary.LittleEndian)
			if err == nil {
				t.Fatal("no error")
			}
			if string(b) != "before" {
				t.Errorf("appended %x", b)
			}
		})
	}
}

// Values that receivers ignore may be anything: a destination that is zero or the wildcard, and the
// count in V4.
//
// socklnd 4.2, 4.4 (1)
func TestHelloIgnores(t *testing.T) {
	v3 := unhex(t, helloExamples[0].dump)
	v4 := unhex(t, helloExamples[9].dump)
	ff := bytes.Repeat([]byte{0xff}, 20)
	tests := []struct {
		name  string
		bytes []byte
		dst   lnet.NID
	}{
		{"zero destination", put(v3, 16, make([]byte, 8)...), lnet.NID{}},
		{"wildcard destination", put(v3, 16, ff[:8]...), lnet.AnyNID},
		{"V4 zero destination", put(v4, 28, make([]byte, 20)...), lnet.NID{}},
		{"V4 wildcard destination", put(v4, 28, ff...), lnet.AnyNID},
		{"V4 count", put(v4, 76, 3), nidB6},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			h, _, err := DecodeHello(c.bytes)
			if err != nil {
				t.Fatal(err)
			}
			if h.Dst != c.dst {
				t.Errorf("destination %v, want %v", h.Dst, c.dst)
			}
			if len(h.IPs) != 0 {
				t.Errorf("addresses %v", h.IPs)
			}
		})
	}
}

func drawNID(t *rapid.T, large bool, label string) lnet.NID {
	net := lnet.MakeNet(lnet.TypeTCP, rapid.Uint16().Draw(t, label+" net"))
	if large && rapid.Bool().Draw(t, label+" large") {
		a := [16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, label+" address"))
		return lnet.NIDFromIP(net, netip.AddrFrom16(a))
	}
	return lnet.NIDFromNumber(net, rapid.Uint32().Draw(t, label+" address"))
}

func drawHello(t *rapid.T) Hello {
	h := Hello{
		Version:        Version(rapid.Uint32Range(1, 4).Draw(t, "version")),
		SrcPID:         lnet.PID(rapid.Uint32().Draw(t, "src pid")),
		SrcIncarnation: rapid.Uint64().Draw(t, "src incarnation"),
		Type:           ConnType(rapid.Int32().Draw(t, "type")),
	}
	h.Src = drawNID(t, h.Version == V4, "src")
	if h.Version != V1 {
		h.Dst = drawNID(t, h.Version == V4, "dst")
		h.DstPID = lnet.PID(rapid.Uint32().Draw(t, "dst pid"))
		h.DstIncarnation = rapid.Uint64().Draw(t, "dst incarnation")
	}
	if h.Version != V4 {
		for _, n := range rapid.SliceOfN(rapid.Uint32Min(1), 0, MaxHelloIPs).Draw(t, "ips") {
			var a [4]byte
			binary.BigEndian.PutUint32(a[:], n)
			h.IPs = append(h.IPs, netip.AddrFrom4(a))
		}
	}
	return h
}

func TestHelloRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHello(t)
		big := rapid.Bool().Draw(t, "big-endian")
		b, err := h.Append(nil, orderOf(big))
		if err != nil {
			t.Fatal(err)
		}
		if len(b) != h.Size() || len(b) > MaxHelloSize {
			t.Fatalf("%d bytes, Size() = %d", len(b), h.Size())
		}
		got, order, err := DecodeHello(b)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(h, got, equalNIDs, equalAddrs); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		if want := orderOf(big && h.Version != V1); order != binary.ByteOrder(want) {
			t.Fatalf("byte order %v, want %v", order, want)
		}
	})
}

func TestHelloFromAnyBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := rapid.SampledFrom([]string{"", "cirE", "Eric", "\xed\x0d\xbc\xee",
			"cirE\x02\x00\x00\x00", "cirE\x04\x00\x00\x00", "Eric\x00\x00\x00\x03"}).Draw(t, "start")
		b := append([]byte(start), rapid.SliceOfN(rapid.Byte(), 0, MaxHelloSize).Draw(t, "rest")...)
		need, err := HelloNeed(b)
		if err == nil && need <= len(b) {
			b = b[:need]
		}
		checkDecodeHello(t, b)
	})
}

func TestHelloDecodeAllocatesForItsAddressesOnly(t *testing.T) {
	v3, v2 := unhex(t, helloExamples[0].dump), unhex(t, helloExamples[7].dump)
	for _, c := range []struct {
		name  string
		bytes []byte
		most  float64
	}{{"no addresses", v3, 0}, {"two addresses", v2, 2}} {
		t.Run(c.name, func(t *testing.T) {
			n := testing.AllocsPerRun(100, func() {
				if _, _, err := DecodeHello(c.bytes); err != nil {
					t.Error(err)
				}
			})
			if n > c.most {
				t.Errorf("%v allocations, want at most %v", n, c.most)
			}
		})
	}
}
