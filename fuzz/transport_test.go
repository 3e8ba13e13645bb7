package fuzz

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
)

// FuzzTransportAddress reads addresses of transfer machines, as administrators, and
// peers, write them.
//
// r.m0.net.xprt.lnet.dev.assert-free
func FuzzTransportAddress(f *testing.F) {
	addTexts(f,
		"127.0.0.1@tcp:12345:30:10", "10.72.49.14@o2ib:12345:31:7", "0@lo:12345:34:1", "192.168.96.128@tcp1:12345:39:*",
		"4.4.4.4@tcp0:42:29:0028", "2001:db8::10@tcp:12345:34:4095", "::@o2ib65535:4294967295:4294967295:1", "4660@kfi1:1:2:3",
		"172.18.1.1@o2ib1:12345:34:0", "10.0.0.1@tcp:12345:34:4096", "10.0.0.1@tcp:12345:34:+1", "10.0.0.1@tcp:4294967296:34:1",
		"a:b@c:d@lo:1:2:3", "anything:at:all@lo:12345:34:1", "<?>:12345:34:1", "", "1.2.3.4@tcp:12345:34:1:",
	)
	f.Fuzz(func(t *testing.T, s string) {
		var a transport.Address
		var err error
		lnetBounded(t, textLimit(s), func() { a, err = transport.ParseAddress(s) })
		transport.ValidEndPoint(s)
		if err != nil {
			lnetNamed(t, err)
			if a != (transport.Address{}) || !errors.Is(err, syscall.EINVAL) {
				t.Fatalf("%+v, %v", a, err)
			}
			return
		}
		if a.TMID == 0 || a.TMID > transport.Dynamic {
			t.Fatalf("TM %d", a.TMID)
		}
		if again, err := transport.ParseAddress(a.String()); err != nil || again != a {
			t.Fatalf("%q prints %q, which gives %v (%v)", s, a, again, err)
		}
	})
}

// FuzzTransportDescriptor reads what peers announce of their passive buffers.
//
// r.m0.net.xprt.lnet.dev.assert-free
func FuzzTransportDescriptor(f *testing.F) {
	for _, s := range []string{
		"010000000000c000 0e31480a00000200 3930000022000000 0c00000003000000 0010000000000000 3a11480a2100c200",
		"ffffffffffffffff 0000000000000900 393000001e000000 ff0f000002000000 0000100000000000 39c0efffe3fff6ff",
		"8967452301001000 8060a8c001000500 3930000027000000 0100000003000000 0100000000000000 3037ede324001500",
		"4c544d4401000000 010000000000c000 0c02000120010db8 0000000000000000 0000001039300000 2200000003000000 0010000000000000 63464d551b31cdb8",
	} {
		b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, false)
		f.Add(b[:47], true)
	}
	f.Fuzz(func(t *testing.T, b []byte, seal bool) {
		if n := len(b) &^ 7; seal && n >= 8 {
			// Add the correct checksum, which a mutation seldom produces by itself.
			for i := range 8 {
				b[n-8+i] = 0
				for k := i; k < n-8; k += 8 {
					b[n-8+i] ^= b[k]
				}
			}
		}
		p, err := transport.Descriptor(b).Decode()
		if err != nil {
			lnetNamed(t, err)
			if p != (transport.Passive{}) || !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.EFBIG) {
				t.Fatalf("%+v, %v", p, err)
			}
			return
		}
		if p.Size < 1 || p.Size > lnet.MTU || p.MatchBits.TMID() != p.Address.TMID || p.MatchBits.Counter() == 0 {
			t.Fatalf("%+v", p)
		}
		if again := p.AppendDescriptor(nil); !bytes.Equal(again, b) {
			t.Fatalf("% x became % x", b, again)
		}
	})
}
