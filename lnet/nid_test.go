package lnet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The table of lnet-wire 11.1, and further special cases.
var nidForms = []struct {
	text  string
	nid4  uint64 // 0 for a large one
	le    string
	large string
}{
	{
		text: "192.168.1.10@tcp", nid4: 0x00020000c0a8010a, le: "0a 01 a8 c0 00 00 02 00",
		large: "00 02 00 00 c0 a8 01 0a 00 00 00 00 00 00 00 00 00 00 00 00",
	},
	{
		text: "192.168.1.10@tcp300", nid4: 0x0002012cc0a8010a, le: "0a 01 a8 c0 2c 01 02 00",
		large: "00 02 01 2c c0 a8 01 0a 00 00 00 00 00 00 00 00 00 00 00 00",
	},
	{
		text: "10.0.0.5@o2ib3", nid4: 0x000500030a000005, le: "05 00 00 0a 03 00 05 00",
		large: "00 05 00 03 0a 00 00 05 00 00 00 00 00 00 00 00 00 00 00 00",
	},
	{
		text: "0@lo", nid4: 0x0009000000000000, le: "00 00 00 00 00 00 09 00",
		large: "00 09 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00",
	},
	{
		text: "4660@kfi1", nid4: 0x0010000100001234, le: "34 12 00 00 01 00 10 00",
		large: "00 10 00 01 00 00 12 34 00 00 00 00 00 00 00 00 00 00 00 00",
	},
	{
		text:  "2001:db8::10@tcp",
		large: "0c 02 00 00 20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 10",
	},
	{
		text:  "fd00:1:2:3::abcd@o2ib7",
		large: "0c 05 00 07 fd 00 00 01 00 02 00 03 00 00 00 00 00 00 ab cd",
	},
	{
		text: "<?>", nid4: 0xffffffffffffffff, le: "ff ff ff ff ff ff ff ff",
		large: "ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff",
	},
}

// lnet-wire 2.2 (1), 2.3 (1), 2.4 (1)-(2), 11.1
func TestNIDForms(t *testing.T) {
	for _, tt := range nidForms {
		t.Run(tt.text, func(t *testing.T) {
			n := mustNID(t, tt.text)
			if got := n.String(); got != tt.text {
				t.Errorf("prints %q", got)
			}
			large := unhex(t, tt.large)
			if got := n.AppendLarge([]byte{9}); !bytes.Equal(got[1:], large) || got[0] != 9 {
				t.Errorf("AppendLarge appends % x, want % x", got[1:], large)
			}
			if got, err := DecodeLarge(large); got != n || err != nil {
				t.Errorf("DecodeLarge = %v, %v", got, err)
			}
			nid4, ok := n.NID4()
			if nid4 != tt.nid4 || ok != (tt.nid4 != 0) {
				t.Errorf("NID4 = %#x, %v, want %#x", nid4, ok, tt.nid4)
			}
			if !ok {
				return
			}
			if got := NIDFrom4(tt.nid4); got != n {
				t.Errorf("NIDFrom4 = %v", got)
			}
			if got, want := binary.LittleEndian.AppendUint64(nil, nid4), unhex(t, tt.le); !bytes.Equal(got, want) {
				t.Errorf("little-endian bytes % x, want % x", got, want)
			}
		})
	}
}

func TestNIDParts(t *testing.T) {
	tests := []struct {
		text   string
		net    Net
		ip     string
		number uint32
		large  bool
	}{
		{text: "192.168.1.10@tcp5", net: MakeNet(TypeTCP, 5), ip: "192.168.1.10", number: 0xc0a8010a},
		{text: "10.1.2.3@gip", net: MakeNet(TypeGIP, 0), ip: "10.1.2.3", number: 0x0a010203},
		{text: "2001:db8::10@tcp", net: MakeNet(TypeTCP, 0), ip: "2001:db8::10", number: 0x20010db8, large: true},
		{text: "::ffff:1.2.3.4@efa2", net: MakeNet(TypeEFA, 2), ip: "::ffff:1.2.3.4", large: true},
		{text: "17@gni", net: MakeNet(TypeGNI, 0), number: 17},
		{text: "0@lo", net: LoNet},
		{text: "<?>", net: NetAny, number: 0xffffffff},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			n := mustNID(t, tt.text)
			var ip netip.Addr
			if tt.ip != "" {
				ip = netip.MustParseAddr(tt.ip)
			}
			if n.Net() != tt.net || n.IP() != ip || n.Number() != tt.number || n.IsLarge() != tt.large {
				t.Errorf("net %v, IP %v, number %#x, large %v", n.Net(), n.IP(), n.Number(), n.IsLarge())
			}
			if ip.IsValid() && NIDFromIP(tt.net, ip) != n {
				t.Errorf("NIDFromIP = %v", NIDFromIP(tt.net, ip))
			}
			if !tt.large && NIDFromNumber(tt.net, tt.number) != n {
				t.Errorf("NIDFromNumber = %v", NIDFromNumber(tt.net, tt.number))
			}
			if n.IsAny() != (tt.text == "<?>") || n.IsLoopback() != (tt.text == "0@lo") || n.IsZero() {
				t.Errorf("any %v, loopback %v, zero %v", n.IsAny(), n.IsLoopback(), n.IsZero())
			}
		})
	}
}

func TestNIDFromIPWithoutAddress(t *testing.T) {
	if n := NIDFromIP(MakeNet(TypeTCP, 0), netip.Addr{}); !n.IsZero() {
		t.Errorf("no address gives %v", n)
	}
	scoped := netip.MustParseAddr("fe80::1%eth0")
	if got := NIDFromIP(MakeNet(TypeTCP, 0), scoped).String(); got != "fe80::1@tcp" {
		t.Errorf("%v gives %v", scoped, got)
	}
}

func TestZeroNID(t *testing.T) {
	var n NID
	if !n.IsZero() || n.String() != "" || n.IP().IsValid() || n.Net() != 0 || n.IsAny() || n.IsLarge() {
		t.Errorf("zero NID: %q, IP %v, net %v", n, n.IP(), n.Net())
	}
	if got := n.AppendLarge(nil); !bytes.Equal(got, make([]byte, 20)) {
		t.Errorf("zero NID is % x", got)
	}
	if got, err := DecodeLarge(make([]byte, 20)); got != n || err != nil {
		t.Errorf("20 zeros give %v, %v", got, err)
	}
}

// Reserved bits announce a larger address. They must not turn into another valid NID.
func TestNIDFrom4DropsReservedBits(t *testing.T) {
	const plain = 0x00020000c0a8010a
	for bit := 56; bit < 64; bit++ {
		v := uint64(plain | 1<<bit)
		n := NIDFrom4(v)
		if back, ok := n.NID4(); n != NIDFrom4(plain) || back == v || !ok {
			t.Errorf("bit %d: %v", bit, n)
		}
	}
	if n := NIDFrom4(0x00ff000000000001); n != AnyNID {
		t.Errorf("type 0xff: %v, want the wildcard", n)
	}
}

// lnet-wire 2.3 (2)
func TestDecodeLargeRefuses(t *testing.T) {
	plain := mustNID(t, "192.168.1.10@tcp").AppendLarge(nil)
	for size := range 256 {
		b := slices.Clone(plain)
		b[0] = byte(size)
		_, err := DecodeLarge(b)
		if (err == nil) != (size == 0 || size == 12) {
			t.Errorf("nid_size %d: error %v", size, err)
		}
		if err != nil && !errors.Is(err, errNIDSize) {
			t.Errorf("nid_size %d: error %v, want %v", size, err, errNIDSize)
		}
	}
	for i := 8; i < 20; i++ {
		b := slices.Clone(plain)
		b[i] = 1
		if _, err := DecodeLarge(b); !errors.Is(err, errNIDPadding) {
			t.Errorf("byte %d set: error %v, want %v", i, err, errNIDPadding)
		}
	}
	everyTruncation(t, plain, func(b []byte) error { _, err := DecodeLarge(b); return err })
}

// The net type alone makes a NID the wildcard (lnet-wire 2.4).
//
// lnet-wire 2.4 (2)
func TestDecodeLargeWildcard(t *testing.T) {
	b := make([]byte, 20)
	b[1] = 0xff
	if n, err := DecodeLarge(b); n != AnyNID || err != nil {
		t.Errorf("type 0xff: %v, %v", n, err)
	}
}

// lnet-wire 2.4 (1)
func TestNIDProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := genNID().Draw(t, "a"), genNID().Draw(t, "b")
		if got, want := a.Compare(b), bytes.Compare(a.AppendLarge(nil), b.AppendLarge(nil)); got != want {
			t.Errorf("Compare = %d, bytes compare %d", got, want)
		}
		if got, err := DecodeLarge(a.AppendLarge(nil)); got != a || err != nil {
			t.Errorf("bytes of %v give %v, %v", a, got, err)
		}
		if v, ok := a.NID4(); ok && NIDFrom4(v) != a {
			t.Errorf("%v as nid4 gives %v", a, NIDFrom4(v))
		}
		if a.IP().IsValid() && NIDFromIP(a.Net(), a.IP()) != a {
			t.Errorf("%v from its parts is %v", a, NIDFromIP(a.Net(), a.IP()))
		}
		text, err := a.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var back NID
		if err := back.UnmarshalText(text); err != nil || back != a {
			t.Errorf("text %q gives %v, %v", text, back, err)
		}
	})
}

// Two NIDs with a nid4 compare like the numbers.
//
// lnet-wire 2.4 (3)
func TestSmallNIDsCompareLikeNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := genSmallNID().Draw(t, "a"), genSmallNID().Draw(t, "b")
		va, _ := a.NID4()
		vb, _ := b.NID4()
		if (a.Compare(b) < 0) != (va < vb) || (a.Compare(b) == 0) != (va == vb) {
			t.Errorf("%v and %v compare %d, %#x and %#x do not", a, b, a.Compare(b), va, vb)
		}
	})
}

func TestNIDDoesNotAllocate(t *testing.T) {
	a, b := mustNID(t, "192.168.1.10@tcp"), mustNID(t, "2001:db8::10@tcp")
	buf := make([]byte, 0, 64)
	seen := map[NID]int{a: 1, b: 2}
	allocs := testing.AllocsPerRun(100, func() {
		if a.Compare(b) == 0 || seen[a] != 1 || seen[b] != 2 {
			t.Error("two NIDs are one")
		}
		buf = b.AppendLarge(buf[:0])
		if n, err := DecodeLarge(buf); n != b || err != nil {
			t.Error(n, err)
		}
		buf, _ = a.AppendText(buf[:0])
		buf, _ = b.AppendText(buf[:0])
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
