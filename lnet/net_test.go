package lnet

import (
	"errors"
	"testing"

	"pgregory.net/rapid"
)

// lnet-wire 2.1, 2.5, 3.1 (1)-(2)
func TestParseNet(t *testing.T) {
	tests := map[string]struct {
		want Net
		text string // empty: as it was
	}{
		"tcp":        {want: MakeNet(TypeTCP, 0)},
		"tcp0":       {want: MakeNet(TypeTCP, 0), text: "tcp"},
		"tcp1":       {want: MakeNet(TypeTCP, 1)},
		"tcp007":     {want: MakeNet(TypeTCP, 7), text: "tcp7"},
		"tcp65535":   {want: MakeNet(TypeTCP, 65535)},
		"tcp0065535": {want: MakeNet(TypeTCP, 65535), text: "tcp65535"},
		"o2ib":       {want: MakeNet(TypeO2IB, 0)},
		"o2ib7":      {want: MakeNet(TypeO2IB, 7)},
		"gni3":       {want: MakeNet(TypeGNI, 3)},
		"gip":        {want: MakeNet(TypeGIP, 0)},
		"ptlf":       {want: MakeNet(TypePTLF, 0)},
		"kfi1":       {want: MakeNet(TypeKFI, 1)},
		"efa2":       {want: MakeNet(TypeEFA, 2)},
		"bxi3f":      {want: MakeNet(TypeBXI3F, 0)},
		"bxi3f4":     {want: MakeNet(TypeBXI3F, 4)},
		"lo":         {want: LoNet},
	}
	for in, tt := range tests {
		t.Run(in, func(t *testing.T) {
			got, err := ParseNet(in)
			if err != nil || got != tt.want {
				t.Fatalf("ParseNet = %#x, %v, want %#x", uint32(got), err, uint32(tt.want))
			}
			text := tt.text
			if text == "" {
				text = in
			}
			if got.String() != text {
				t.Errorf("String = %q, want %q", got, text)
			}
		})
	}
}

// lnet-wire 3.1 (2), 12 (1)
func TestParseNetRefuses(t *testing.T) {
	for in, want := range map[string]error{
		"":                            ErrUnknownType,
		"foo":                         ErrUnknownType,
		"TCP":                         ErrUnknownType,
		" tcp":                        ErrUnknownType,
		"0":                           ErrUnknownType,
		"<2:0>":                       ErrUnknownType, // it has a name
		"<0:0>":                       ErrUnknownType,
		"<255:0>":                     ErrUnknownType,
		"<256:0>":                     ErrUnknownType,
		"<17:0":                       ErrUnknownType,
		"<17>":                        ErrUnknownType,
		"<17:0>1":                     ErrUnknownType,
		"<0x11:0>":                    ErrUnknownType,
		"<17:>":                       errNetNumber,
		"<17:65536>":                  errNetNumber,
		"elan":                        ErrUnknownType,
		"tcpx":                        errNetNumber,
		"tcp ":                        errNetNumber,
		"tcp-1":                       errNetNumber,
		"tcp+1":                       errNetNumber,
		"tcp1_0":                      errNetNumber,
		"tcp0x1":                      errNetNumber,
		"tcp1.0":                      errNetNumber,
		"tcp65536":                    errNetNumber, // in kernels it overflows into the type
		"tcp4294967296":               errNetNumber,
		"tcp18446744073709551617":     errNetNumber,
		"o2ib99999999999999999999999": errNetNumber,
		"bxi3":                        ErrUnknownType,
		"lo0":                         errLoNumber,
		"lo1":                         errLoNumber,
	} {
		got, err := ParseNet(in)
		if !errors.Is(err, want) {
			t.Errorf("ParseNet(%q): error %v, want %v", in, err, want)
		}
		if got != NetAny {
			t.Errorf("ParseNet(%q) = %v, want the wildcard", in, got)
		}
		wantNamed(t, err)
	}
}

// A driver's private type has no name, and is parsed as it prints.
//
// lnet-wire 3.1 (3)
func TestNamelessNets(t *testing.T) {
	for _, n := range []Net{MakeNet(TypeTOFU, 0), MakeNet(1, 65535), MakeNet(254, 7)} {
		got, err := ParseNet(n.String())
		if err != nil || got != n {
			t.Errorf("%s is read as %s, %v", n, got, err)
		}
	}
}

// lnet-wire 2.1
func TestNetParts(t *testing.T) {
	n := MakeNet(TypeO2IB, 300)
	if n != 0x0005012c || n.Type() != TypeO2IB || n.Number() != 300 {
		t.Errorf("o2ib300 is %#x of type %v and number %d", uint32(n), n.Type(), n.Number())
	}
	if LoNet != MakeNet(TypeLO, 0) {
		t.Errorf("LoNet = %v", LoNet)
	}
}

// lnet-wire 3.1 (3)
func TestUnknownTypesPrintAsNumbers(t *testing.T) {
	for _, tt := range []struct {
		net  Net
		want string
		typ  string
	}{
		{MakeNet(TypeTOFU, 0), "<17:0>", "?17?"},
		{MakeNet(1, 65535), "<1:65535>", "?1?"},
		{0, "<0:0>", "?0?"},
		{NetAny, "<255:65535>", "?255?"},
	} {
		if got := tt.net.String(); got != tt.want {
			t.Errorf("net %#x prints %q, want %q", uint32(tt.net), got, tt.want)
		}
		if got := tt.net.Type().String(); got != tt.typ {
			t.Errorf("type %d prints %q, want %q", tt.net.Type(), got, tt.typ)
		}
	}
}

func TestParseNetType(t *testing.T) {
	for _, typ := range append(namedTypes, TypeLO) {
		if got, err := ParseNetType(typ.String()); err != nil || got != typ {
			t.Errorf("ParseNetType(%v) = %v, %v", typ, got, err)
		}
	}
	for _, in := range []string{"", "tcp0", "foo", "?17?"} {
		if got, err := ParseNetType(in); err == nil {
			t.Errorf("ParseNetType(%q) = %v, want an error", in, got)
		}
	}
}

// lnet-wire 2.5
func TestIPAddressed(t *testing.T) {
	for _, typ := range append(namedTypes, TypeLO, TypeTOFU) {
		want := typ == TypeTCP || typ == TypeO2IB || typ == TypeEFA || typ == TypeGIP
		if typ.IPAddressed() != want {
			t.Errorf("%v.IPAddressed() = %v", typ, !want)
		}
	}
}

func TestNetTextRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := genNet().Draw(t, "net")
		text, err := want.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var got Net
		if err := got.UnmarshalText(text); err != nil || got != want {
			t.Fatalf("%q gives %v, %v", text, got, err)
		}
	})
}

func TestNetUnmarshalKeepsValueOnError(t *testing.T) {
	n := MakeNet(TypeTCP, 3)
	if err := n.UnmarshalText([]byte("tcpx")); err == nil || n != MakeNet(TypeTCP, 3) {
		t.Errorf("error %v leaves %v", err, n)
	}
}
