package transport

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/lnet"
)

func mustNID(t testing.TB, s string) lnet.NID {
	t.Helper()
	n, err := lnet.ParseNID(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func mustAddress(t testing.TB, s string) Address {
	t.Helper()
	a, err := ParseAddress(s)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Valid addresses in text form are parsed, and printed in their canonical form.
//
// transport-tests B (9)
// transport 6.1 (3)
// r.M0.net.xprt.lnet.end-point-address
// r.M0.net.ib
func TestGoodAddresses(t *testing.T) {
	for _, tt := range []struct {
		text   string
		nid    string
		pid    lnet.PID
		portal uint32
		tmid   uint16
		prints string // expected output, if it differs from the input
	}{
		{"127.0.0.1@tcp:12345:30:10", "127.0.0.1@tcp", 12345, 30, 10, ""},
		{"127.0.0.1@tcp:12345:30:*", "127.0.0.1@tcp", 12345, 30, Dynamic, ""},
		{"127.0.0.1@tcp:12345:30:4095", "127.0.0.1@tcp", 12345, 30, 4095, ""},
		{"127.0.0.1@tcp:12345:30:1", "127.0.0.1@tcp", 12345, 30, 1, ""},
		{"4.4.4.4@tcp:42:29:28", "4.4.4.4@tcp", 42, 29, 28, ""},
		{"10.72.49.14@o2ib:12345:31:7", "10.72.49.14@o2ib", 12345, 31, 7, ""},
		{"0@lo:12345:34:1", "0@lo", 12345, 34, 1, ""},
		{"192.168.96.128@tcp1:12345:39:*", "192.168.96.128@tcp1", 12345, 39, Dynamic, ""},
		{"1.2.3.4@tcp0:4294967295:4294967295:0012", "1.2.3.4@tcp", 1<<32 - 1, 1<<32 - 1, 12, "1.2.3.4@tcp:4294967295:4294967295:12"},
		{"001.2.3.4@tcp:12345:0:0000000001", "1.2.3.4@tcp", 12345, 0, 1, "1.2.3.4@tcp:12345:0:1"},
		{"255.255.255.255@efa65535:1:2:3", "255.255.255.255@efa65535", 1, 2, 3, ""},
		{"2001:db8::10@tcp:12345:34:1", "2001:db8::10@tcp", 12345, 34, 1, ""},
		{"::@tcp:12345:34:*", "::@tcp", 12345, 34, Dynamic, ""},
		{"2001:db8:aaaa:bbbb:cccc:dddd:eeee:ffff@o2ib65535:12345:34:4095", "2001:db8:aaaa:bbbb:cccc:dddd:eeee:ffff@o2ib65535", 12345, 34, 4095, ""},
	} {
		t.Run(tt.text, func(t *testing.T) {
			want := Address{mustNID(t, tt.nid), tt.pid, tt.portal, tt.tmid}
			a, err := ParseAddress(tt.text)
			if err != nil || a != want {
				t.Fatalf("%+v, %v, want %+v", a, err, want)
			}
			prints := tt.prints
			if prints == "" {
				prints = tt.text
			}
			if got := a.String(); got != prints {
				t.Fatalf("prints %q, want %q", got, prints)
			}
		})
	}
}

// Text that is no valid address is refused.
//
// transport-tests B (10)-(11)
// transport 6.1 (1)-(2)
func TestBadAddresses(t *testing.T) {
	for _, s := range []string{
		"", ":", "no colon", "10.0.0.1@tcp", "10.0.0.1@tcp:", "10.0.0.1@tcp:12345", "10.0.0.1@tcp:12345:34", "10.0.0.1@tcp:12345:34:",
		"notip@tcp:12345:34:1", "notnid:12345:34:1", "10.0.0.1:12345:34:1", "@tcp:12345:34:1", "10.0.0.1@:12345:34:1", "10.0.0.1@nonet:12345:34:1",
		"<?>:12345:34:1", "*@tcp:12345:34:1", "1.2.3.4@tcp@tcp:12345:34:1",
		"10.0.0.1@tcp:12345::1", "10.0.0.1@tcp::34:1", "10.0.0.1@tcp:12345:1", "10.0.0.1@tcp:12345:34:1:1", "10.0.0.1@tcp:12345:34:1:",
		"10.0.0.1@tcp:12345:34:4096", "10.0.0.1@tcp:12345:34:-10", "10.0.0.1@tcp:12345:34:+1", "10.0.0.1@tcp:12345:34: 1",
		"10.0.0.1@tcp:12345:34:foo", "10.0.0.1@tcp:12345:34:12x", "10.0.0.1@tcp:12345:34:1 ", "10.0.0.1@tcp:12345:34:**", "10.0.0.1@tcp:12345:34:*1",
		"10.0.0.1@tcp:12345:34:0", "10.0.0.1@tcp:12345:34:0000000000", "10.0.0.1@tcp:12345:34:00000000001", "10.0.0.1@tcp:12345:34:65537",
		"10.0.0.1@tcp:pid:34:1", "10.0.0.1@tcp:12345:portal:1", "10.0.0.1@tcp:0x10:34:1", "10.0.0.1@tcp:1_0:34:1", "10.0.0.1@tcp:*:34:1",
		"10.0.0.1@tcp:4294967296:34:1", "10.0.0.1@tcp:12345:4294967296:1", "10.0.0.1@tcp:12345:34:4294967297", "10.0.0.1@tcp:12345:99999999999:1",
		" 10.0.0.1@tcp:12345:34:1", "10.0.0.1 @tcp:12345:34:1",
		strings.Repeat("x", 29) + "@lo:12345:34:1", strings.Repeat("1:", 31) + "@tcp:12345:34:1", strings.Repeat("x", 1000) + "@lo:12345:34:1",
		"[2001:db8::10]@tcp:12345:34:1", "2001:db8::10:12345:34:1", "fe80::1%eth0@tcp:12345:34:1", "2001:db8::10@kfi:12345:34:1",
	} {
		a, err := ParseAddress(s)
		var field *lnet.FieldError
		if !errors.Is(err, syscall.EINVAL) || !errors.As(err, &field) || a != (Address{}) {
			t.Errorf("%q: %+v, %v", s, a, err)
		}
	}
	if a, err := ParseAddress(strings.Repeat("x", 28) + "@lo:12345:34:1"); err != nil {
		t.Errorf("NID of 31 bytes: %+v, %v", a, err)
	}
}

// MarshalText and UnmarshalText are inverse to each other.
//
// transport 6.1 (3)
func TestAddressAsText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := genAddress(false).Draw(t, "address")
		text, err := a.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var b Address
		if err := b.UnmarshalText(text); err != nil || b != a {
			t.Fatalf("%s gives %+v, %v", text, b, err)
		}
	})
	var a Address
	if a.String() != "" {
		t.Errorf("zero address prints %q", a.String())
	}
	a = mustAddress(t, "10.0.0.1@tcp:12345:34:1")
	if err := a.UnmarshalText([]byte("10.0.0.1@tcp:12345:34:0")); err == nil || a.TMID != 1 {
		t.Errorf("%v, and the address is %v", err, a)
	}
	if err := a.UnmarshalText(nil); err != nil || a != (Address{}) {
		t.Errorf("empty text: %v, %v", a, err)
	}
}

// ValidEndPoint accepts texts of the form that the specification defines, and refuses others.
//
// transport-tests B (16)
// transport 3.17
func TestValidEndPoint(t *testing.T) {
	for _, s := range []string{
		"0@lo:12345:34:1", "172.18.1.1@tcp:12345:40:401", "255.0.0.0@tcp:12345:1:1", "172.18.1.1@o2ib1:12345:34:1",
		"172.18.1.1@o2ib:12345:34:0", "172.18.1.1@tcp9:12345:123456789012345:123456789012345", "255.255.255.255@tcp:12345:34:1",
	} {
		if !ValidEndPoint(s) {
			t.Errorf("%q is not valid", s)
		}
	}
	for _, s := range []string{
		"", " 0@lo:12345:34:1", "0@lo:12345:34:1 ", "0@lo :12345:34:1", "1@lo:12345:34:1", "0@lo1:12345:34:1", "0:12345:34:1", "172.18.1.1:12345:34:1",
		"256.0.0.0@tcp:12345:34:1", "0000.0.0.0@tcp:12345:34:1x", "1.2.3@tcp:12345:34:1", "1.2.3.4.5@tcp:12345:34:1", "1.2.3.@tcp:12345:34:1",
		"0001.100.100.100@tcp:12345:34:1", "1.2.3.4@tcp10:12345:34:1", "1.2.3.4@tcpx:12345:34:1", "1.2.3.4@gni:12345:34:1", "1.2.3.4@:12345:34:1",
		"1.2.3.4@tcp:54321:34:1", "1.2.3.4@tcp:012345:34:1", "1.2.3.4@tcp:12345:34:*", "1.2.3.4@tcp:12345:34:", "1.2.3.4@tcp:12345::1",
		"1.2.3.4@tcp:12345:34", "1.2.3.4@tcp:12345:34:1:1", "1.2.3.4@tcp:12345:1234567890123456:1", "1.2.3.4@tcp:12345:1:1234567890123456",
		"1.2.3.4@tcp:12345:34:-1", "2001:db8::10@tcp:12345:34:1",
	} {
		if ValidEndPoint(s) {
			t.Errorf("%q is valid", s)
		}
	}
}
