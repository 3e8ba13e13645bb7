package lnet

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The examples of lnet-wire 3.5, and the rules that they show.
//
// lnet-wire 3.5 (1), 3.5 (3), 12 (2)
// lnetctl 12 (3)
func TestNIDList(t *testing.T) {
	for _, tt := range []struct {
		in   string
		text string // empty: as it was
		yes  string // NIDs separated by spaces
		no   string
	}{
		{
			in:  "192.168.0.[1-10/2]@tcp",
			yes: "192.168.0.1@tcp 192.168.0.3@tcp 192.168.0.5@tcp 192.168.0.7@tcp 192.168.0.9@tcp",
			no:  "192.168.0.8@tcp 192.168.0.10@tcp 192.168.0.11@tcp 192.168.1.1@tcp 192.168.0.1@tcp1 192.168.0.1@o2ib",
		},
		{
			in: "192.168.[0,5,7].*@tcp1", text: "192.168.[0,5,7].[0-255]@tcp1",
			yes: "192.168.0.0@tcp1 192.168.5.255@tcp1 192.168.7.9@tcp1", no: "192.168.1.0@tcp1 192.168.5.1@tcp",
		},
		{
			in:  "10.0.0.0/8@tcp",
			yes: "10.9.9.9@tcp 10.0.0.0@tcp", no: "11.0.0.0@tcp 9.255.255.255@tcp ::ffff:10.9.9.9@tcp 10.9.9.9@tcp1",
		},
		{
			in:  "2001:db8::/32@tcp",
			yes: "2001:db8::1@tcp 2001:db8:ffff::@tcp", no: "2001:db9::@tcp 32.1.13.184@tcp",
		},
		{in: "2001:db8::1@tcp", yes: "2001:db8::1@tcp", no: "2001:db8::2@tcp"},
		{in: "2001:db8::1/128@tcp", text: "2001:db8::1@tcp", yes: "2001:db8::1@tcp", no: "2001:db8::@tcp"},
		{in: "1.2.3.4/32@tcp", text: "1.2.3.4@tcp", yes: "1.2.3.4@tcp", no: "1.2.3.5@tcp"},
		{in: "10.1.2.3/8@o2ib", yes: "10.9.9.9@o2ib", no: "11.1.2.3@o2ib"},
		{in: "*@o2ib", yes: "1.2.3.4@o2ib fe80::1@o2ib", no: "1.2.3.4@tcp 1.2.3.4@o2ib1"},
		{in: "[0-0xff,1024]@gni", text: "[0-255,1024]@gni", yes: "0@gni 255@gni 1024@gni", no: "256@gni 1023@gni"},
		{in: "7@kfi3", yes: "7@kfi3", no: "8@kfi3 7@kfi"},
		{in: "*@lo", yes: "0@lo", no: "0.0.0.0@tcp"},
		{in: "0@lo", yes: "0@lo"},
		{in: "  1.2.3.4@tcp   1.2.3.5@tcp ", text: "1.2.3.4@tcp 1.2.3.5@tcp", yes: "1.2.3.4@tcp 1.2.3.5@tcp"},
		// Numbers have their own bases, in the net too.
		{in: "010.0x10.0.1@tcp010", text: "8.16.0.1@tcp8", yes: "8.16.0.1@tcp8", no: "10.16.0.1@tcp8"},
		{in: "1@gni0xff", text: "1@gni255", yes: "1@gni255"},
		// Netmasks come before ranges of the same net.
		{
			in:   "1.2.3.4@tcp 9@gni 10.0.0.0/8@tcp *@o2ib 2.2.2.2@tcp",
			text: "10.0.0.0/8@tcp 1.2.3.4@tcp 2.2.2.2@tcp 9@gni *@o2ib", yes: "1.2.3.4@tcp 10.1.1.1@tcp 9@gni 2.2.2.2@tcp",
		},
		// "*" swallows what else there is of its net; kernels fail to print that.
		{in: "*@tcp 1.2.3.4@tcp 10.0.0.0/8@tcp", text: "*@tcp", yes: "9.9.9.9@tcp"},
		{in: "1.2.3.4@tcp 10.0.0.0/8@tcp *@tcp", text: "*@tcp", yes: "9.9.9.9@tcp"},
		// A range never matches a large NID, not even by its first bytes.
		{in: "32.1.*.*@tcp", text: "32.1.[0-255].[0-255]@tcp", yes: "32.1.9.9@tcp", no: "2001:db8::1@tcp"},
		{in: "*.*.*.*@tcp", text: "[0-255].[0-255].[0-255].[0-255]@tcp", yes: "9.9.9.9@tcp", no: "2001:db8::1@tcp"},
		// Netmasks are for tcp and o2ib alone.
		{in: "10.0.0.0/8@efa", no: "10.0.0.1@efa"},
		{in: "2001:db8::/32@efa", no: "2001:db8::1@efa"},
		{in: "10.0.0.0/8@gip", no: "10.0.0.1@gip"},
		{in: "1.2.3.4/32@efa", no: "1.2.3.4@efa"},
		{in: "2001:db8::1/128@efa", text: "2001:db8::1@efa", no: "2001:db8::1@efa"},
		{in: "0.0.0.0/1@gni ::/1@kfi", no: "1@gni 1@kfi"},
		{in: "10.0.0.[1-2]@gip", yes: "10.0.0.1@gip"},
		{in: "10.0.0.[1-2]@efa", yes: "10.0.0.1@efa", no: "2001:db8::1@efa"},
		{in: "0.0.0.0@tcp", yes: "0.0.0.0@tcp", no: "::@tcp"},
		{in: "[1-4/2].[1-2].3.4@tcp", yes: "3.2.3.4@tcp", no: "2.2.3.4@tcp"},
		{in: "::ffff:1.2.3.0/120@tcp", yes: "::ffff:1.2.3.4@tcp", no: "1.2.3.4@tcp"},
	} {
		t.Run(tt.in, func(t *testing.T) {
			l, err := ParseNIDList(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			want := tt.text
			if want == "" {
				want = tt.in
			}
			if l.String() != want {
				t.Errorf("prints %q, want %q", l, want)
			}
			for _, nid := range strings.Fields(tt.yes) {
				if !l.Match(mustNID(t, nid)) {
					t.Errorf("does not match %s", nid)
				}
			}
			for _, nid := range strings.Fields(tt.no) {
				if l.Match(mustNID(t, nid)) {
					t.Errorf("matches %s", nid)
				}
			}
			if l.Match(NID{}) || l.Match(AnyNID) {
				t.Error("matches no NID, or the wildcard")
			}
		})
	}
}

// lnet-wire 3.5 (2), 12 (1)
func TestParseNIDListRefuses(t *testing.T) {
	for _, in := range []string{
		"", " ", "@", "*", "tcp", "*@", "*@foo", "1.2.3.4", "@tcp", "@gni",
		"192.168.0.1@tcp,192.168.0.2@tcp",
		"192.168.0.1@tcp\t192.168.0.2@tcp",
		"192.168.0.1@tcp;192.168.0.2@tcp",
		"1.2.3.[5-4]@tcp",
		"1.2.3.[1-4/0]@tcp",
		"10.0.0.0/0@tcp", "::/0@tcp", "10.0.0.0/33@tcp", "::/129@tcp", "10.0.0.0/@tcp", "10.0.0.0/x@tcp", "10.0.0.0/8/8@tcp",
		"10.0.0/8@tcp", "10.0.0.[0-1]/8@tcp", "fe80::1%eth0@tcp", "[2001:db8::10]@tcp", "2001:db8::[1-2]@tcp",
		"1.2.3@tcp", "1.2.3.4.5@tcp", "1.2.3.256@tcp", "1.2.3.[0-256]@tcp", "1.2.3.@tcp", "1.2..4@tcp", "1.2.3.08@tcp",
		"1.2.3.4@tcp@tcp", "1.2.3.4@tcp1@o2ib", "1.2.3.4@tcp65536", "1.2.3.4@tcp0x10000", "1.2.3.4@tcpx", "1@lo1", "*@lo1",
		"1.2.3.4@gni", "4294967296@gni", "[1,2@gni", "1,2]@gni", "1-2@gni", "[1, 2]@gni",
		"1.2.3.4@tcp 1.2.3@tcp",
	} {
		l, err := ParseNIDList(in)
		if err == nil || len(l.nets) != 0 {
			t.Errorf("%q gives %v, %v, want an error", in, l, err)
			continue
		}
		wantNamed(t, err)
	}
}

func TestZeroNIDList(t *testing.T) {
	var l NIDList
	if l.Match(LoopbackNID) || l.Match(NID{}) || l.String() != "" {
		t.Errorf("zero list prints %q", l)
	}
}

// lnet-wire 3.5 (4)
func TestNIDListText(t *testing.T) {
	var l NIDList
	if err := l.UnmarshalText([]byte("10.0.0.[1-2]@tcp")); err != nil {
		t.Fatal(err)
	}
	if err := l.UnmarshalText([]byte("nonsense")); !errors.Is(err, errNoNet) {
		t.Errorf("nonsense: %v", err)
	}
	if text, err := l.MarshalText(); err != nil || string(text) != "10.0.0.[1-2]@tcp" {
		t.Errorf("text %q, %v", text, err)
	}
}

// genNIDRange is one pattern, in any of its forms.
func genNIDRange() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		net := genNet().Draw(t, "net")
		switch form := rapid.IntRange(0, 4).Draw(t, "form"); {
		case form == 0:
			return "*@" + net.String()
		case form == 1:
			return fmt.Sprintf("%v/%d@%v", genLargeNID().Draw(t, "nid").IP(), rapid.IntRange(1, 128).Draw(t, "bits"), net)
		case form == 2:
			ip := NIDFromNumber(MakeNet(TypeTCP, 0), rapid.Uint32().Draw(t, "ip")).IP()
			return fmt.Sprintf("%v/%d@%v", ip, rapid.IntRange(1, 32).Draw(t, "bits"), net)
		case net.Type().IPAddressed():
			octet := genRangeExpr(255)
			return fmt.Sprintf("%v.%v.%v.%v@%v", octet.Draw(t, "a"), octet.Draw(t, "b"), octet.Draw(t, "c"), octet.Draw(t, "d"), net)
		}
		return fmt.Sprintf("%v@%v", genRangeExpr(^uint32(0)).Draw(t, "number"), net)
	})
}

// The canonical form is a fixed point, and matches what the original does.
func TestNIDListRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := strings.Join(rapid.SliceOfN(genNIDRange(), 1, 8).Draw(t, "patterns"), " ")
		l, err := ParseNIDList(in)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseNIDList(l.String())
		if err != nil || again.String() != l.String() {
			t.Fatalf("%q prints %q, which prints %q, %v", in, l, again, err)
		}
		for _, nid := range rapid.SliceOf(genInterfaceNID()).Draw(t, "nids") {
			if l.Match(nid) != again.Match(nid) {
				t.Errorf("%v is in one of %q and %q", nid, in, l)
			}
		}
	})
}

// A list of very many nets takes no more than its share of time.
func TestNIDListOfManyNets(t *testing.T) {
	var b strings.Builder
	for number := range 1 << 16 {
		fmt.Fprintf(&b, "10.0.0.1@tcp%d ", number)
	}
	l, err := ParseNIDList(b.String())
	if err != nil {
		t.Fatal(err)
	}
	for number := range 1 << 16 {
		n := NIDFromNumber(MakeNet(TypeTCP, uint16(number)), 0x0a000001)
		if !l.Match(n) || l.Match(NIDFromNumber(n.Net(), 0x0a000002)) {
			t.Fatalf("%v is not in the list, or its neighbour is", n)
		}
	}
}

// Every NID is in the list that its own text is.
func TestNIDListMatchesItsOwnText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nid := genInterfaceNID().Draw(t, "nid")
		if nid.IsLarge() && !nid.Net().Type().masks() {
			return
		}
		l, err := ParseNIDList(nid.String())
		if err != nil || !l.Match(nid) {
			t.Errorf("%v is not in its list: %v", nid, err)
		}
	})
}
