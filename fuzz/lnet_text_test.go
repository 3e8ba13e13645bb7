package fuzz

import (
	"bytes"
	"errors"
	"net/netip"
	"reflect"
	"testing"

	"github.com/lnetd/lnetd/lnet"
)

func addTexts(f *testing.F, texts ...string) {
	f.Helper()
	for _, s := range texts {
		f.Add(s)
	}
}

// FuzzLnetNID reads NIDs and process IDs, and writes them again in all their
// forms.
func FuzzLnetNID(f *testing.F) {
	addTexts(f,
		"192.168.1.10@tcp", "192.168.1.10@tcp300", "10.0.0.5@o2ib3", "0@lo", "4660@kfi1", "0x1234@kfi1", "2001:db8::10@tcp",
		"fd00:1:2:3::abcd@o2ib7", "::ffff:1.2.3.4@efa", "1.2.3.4@gip", "5@bxi3f2", "1@ptlf", "<?>", "10.0.0.1",
		"1f@<17:3>", "20010db8:0:0:10@<200:0>", "1:2:3:4@kfi",
		"12345-10.0.0.1@tcp", "U7-10.0.0.1@tcp", "LNET_PID_ANY-10.0.0.1@tcp",
		"1.2.3.4@tcpx", "1@lo1", "1.2.3@tcp", "[2001:db8::10]@tcp", "1.2.3.4@tcp65536", "fe80::1%eth0@tcp",
	)
	f.Fuzz(func(t *testing.T, s string) {
		var n lnet.NID
		var err error
		lnetBounded(t, textLimit(s), func() { n, err = lnet.ParseNID(s) })
		checkProcessID(t, s)
		if err != nil {
			lnetNamed(t, err)
			if !n.IsZero() {
				t.Fatalf("half parsed: %v", n)
			}
			return
		}
		if n2, err := lnet.ParseNID(n.String()); err != nil || n2 != n {
			t.Fatalf("%q prints %q, which gives %v (%v)", s, n, n2, err)
		}
		large := n.AppendLarge(nil)
		if n2, err := lnet.DecodeLarge(large); err != nil || n2 != n {
			t.Fatalf("%v is % x, which gives %v (%v)", n, large, n2, err)
		}
		if v, ok := n.NID4(); ok == n.IsLarge() || ok && lnet.NIDFrom4(v) != n {
			t.Fatalf("%v as nid4: %#x, %v", n, v, ok)
		}
		if c := n.CPT(3, 4); c < 0 || c > 2 {
			t.Fatalf("%v is for CPT %d of 3", n, c)
		}
	})
}

func checkProcessID(t *testing.T, s string) {
	t.Helper()
	p, err := lnet.ParseProcessID(s)
	if err != nil {
		lnetNamed(t, err)
		return
	}
	if p2, err := lnet.ParseProcessID(p.String()); err != nil || p2 != p {
		t.Fatalf("%q prints %q, which gives %v (%v)", s, p, p2, err)
	}
}

// FuzzLnetLargeNID reads the 20 bytes of a NID.
func FuzzLnetLargeNID(f *testing.F) {
	for _, s := range []string{"192.168.1.10@tcp", "2001:db8::10@tcp", "<?>", "0@lo", "4660@kfi1"} {
		f.Add(lnetNID(f, s).AppendLarge(nil))
	}
	f.Add(make([]byte, lnet.LargeNIDSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := lnet.DecodeLarge(b)
		if err != nil {
			lnetNamed(t, err)
			return
		}
		if again := n.AppendLarge(nil); !n.IsAny() && !bytes.Equal(again, b[:lnet.LargeNIDSize]) {
			t.Fatalf("% x became % x", b, again)
		}
		if n.String() == "" != n.IsZero() {
			t.Fatalf("%v", n)
		}
	})
}

// maxParameter is the longest text that a module parameter may have. What
// prints longer than it was cannot always be read back.
const maxParameter = 4096

func FuzzLnetNetworks(f *testing.F) {
	addTexts(f,
		"tcp", "tcp0(eth0),o2ib0(ib0)", "tcp1(eth1[0],eth2[1-3])", "tcp(eth0)[0,2]", "tcp(eth0:1)", "lo,tcp,", " tcp ( eth0 [ 1 , 2-6/2 ] ) ",
		"tcp[*]", "tcp(eth0),tcp(eth1)", "tcp(eth0,eth0)", "tcp()", "tcp(eth0", "tcp[1](eth0)", "",
	)
	f.Fuzz(func(t *testing.T, s string) {
		var n lnet.Networks
		var err error
		lnetBounded(t, textLimit(s), func() { n, err = lnet.ParseNetworks(s) })
		if err != nil {
			lnetNamed(t, err)
			return
		}
		for i := range n {
			if _, err := n[i].CPTsOf(0).Below(8); err != nil {
				lnetNamed(t, err)
			}
		}
		text := n.String()
		if len(text) > maxParameter {
			return
		}
		if again, err := lnet.ParseNetworks(text); err != nil || !reflect.DeepEqual(again, n) {
			t.Fatalf("%q prints %q, which gives %v (%v)", s, text, again, err)
		}
	})
}

func FuzzLnetIP2Nets(f *testing.F) {
	addTexts(f,
		"tcp1(eth3) 10.20.30.[2-8/2]; tcp,o2ib(ib0) 172.16.[1,3].* 172.17.*.*; tcp *.*.*.*",
		"# comment ; o2ib *.*.*.*\ntcp 10.0.0.1\r", "tcp", "lo *.*.*.*", "tcp[0,1] 10.0.0.*", "tcp(eth0) 10.0.0.1; tcp(eth0) 10.0.0.1",
		"tcp 10.0.0", "tcp(eth0, eth1) 10.0.0.*", "tcp,tcp 10.0.0.*",
	)
	local := []netip.Addr{netip.MustParseAddr("10.20.30.4"), netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("2001:db8::1")}
	f.Fuzz(func(t *testing.T, s string) {
		var rules lnet.IP2Nets
		var err error
		lnetBounded(t, textLimit(s), func() { rules, err = lnet.ParseIP2Nets(s) })
		if err != nil {
			lnetNamed(t, err)
			return
		}
		nets, err := rules.Match(local)
		if err != nil && !errors.Is(err, lnet.ErrNoMatch) {
			lnetNamed(t, err)
		}
		for i := range rules {
			if len(rules[i].String()) > maxParameter {
				return
			}
		}
		again, err := lnet.ParseIP2Nets(rules.String())
		if err != nil || !reflect.DeepEqual(again, rules) {
			t.Fatalf("%q prints %q, which gives %v (%v)", s, rules, again, err)
		}
		if nets2, _ := again.Match(local); !reflect.DeepEqual(nets2, nets) {
			t.Fatalf("%q and %q match differently", s, rules)
		}
	})
}

func FuzzLnetRoutes(f *testing.F) {
	addTexts(f,
		"tcp[1-3] 10.0.0.[1,2]@tcp:1", "tcp1 2 10.0.0.1@tcp:3 10.0.0.2@tcp", "# all\no2ib 2001:db8::1@tcp:7;", "o2ib 10.0.0.1:5",
		"[tcp,o2ib]3 10.0.0.1@gip", "tcp[2-6/2] 255 10.0.0.1@o2ib", "tcp[1-65535] 10.0.0.1@o2ib", "tcp[1-4294967295] [1-255].0.0.1",
		"tcp1 0 10.0.0.1@tcp", "tcp[1-4/2] 10.0.0.1@tcp", "lo 10.0.0.1@tcp", "tcp1 5:0",
	)
	f.Fuzz(func(t *testing.T, s string) {
		entries, err := lnet.ParseRouteEntries(s)
		if err != nil {
			lnetNamed(t, err)
			return
		}
		for i := range entries {
			text := entries[i].String()
			again, err := lnet.ParseRouteEntries(text)
			if err != nil || len(again) != 1 || !reflect.DeepEqual(again[0], entries[i]) {
				t.Fatalf("%q prints %q, which gives %v (%v)", s, text, again, err)
			}
		}
		// A few brackets stand for as many routes as there may be, once.
		lnetBounded(t, 64<<20, func() { _, err = lnet.ParseRoutes(s) })
		if err != nil {
			lnetNamed(t, err)
		}
	})
}

func FuzzLnetExpandNIDs(f *testing.F) {
	addTexts(f,
		"10.10.10.[1-3]@tcp", "10.[1,5].0.[2-6/2]@tcp1", "[6-12/4]@gni", "2001:db8::[e-11]@tcp[1-2]", "10.0.0.1@tcp,5@gni",
		"[14-15].[1-2/1].[1].[100-254/10]@tcp,14.14.[254].14@o2ib", "[1-4294967295]@gni", "*@tcp", "1.]2[.3.4@o2ib", "[2-1]@gni",
		"1.[2-4,[5-6],7-8].1.1@tcp", "[a-f/x]@gni", "[fd00-fd02]::1@tcp", "x[1-128]@lo",
	)
	const limit = 128
	f.Fuzz(func(t *testing.T, s string) {
		var nids []lnet.NID
		var err error
		lnetBounded(t, textLimit(s)+limit*1024, func() { nids, err = lnet.ExpandNIDs(s, limit) })
		if err != nil {
			lnetNamed(t, err)
			return
		}
		if len(nids) == 0 || len(nids) > limit {
			t.Fatalf("%d NIDs", len(nids))
		}
	})
}
