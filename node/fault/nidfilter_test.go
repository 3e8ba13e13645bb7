package fault_test

import (
	"errors"
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node/fault"
)

// lnet-core 11.1, 11.3
func TestNIDFilterMatchesByItsForm(t *testing.T) {
	large := lnet.NIDFromIP(tcp, netip.MustParseAddr("2001:db8::1"))
	for _, c := range []struct {
		text, canonical string
		yes, no         []lnet.NID
	}{
		{"*", "*", []lnet.NID{nidA, nidOther, large, lnet.LoopbackNID, {}}, nil},
		{"<?>", "*", []lnet.NID{nidA, nidOther, large, {}}, nil},
		{"*@tcp", "*@tcp", []lnet.NID{nidA, nidB, large}, []lnet.NID{nidOther, lnet.LoopbackNID, {}}},
		{"*@tcp0", "*@tcp", []lnet.NID{nidA}, []lnet.NID{nidOther}},
		{"255.255.255.255@tcp1", "*@tcp1", []lnet.NID{nidOther}, []lnet.NID{nidA, large, {}}},
		{"4294967295@kfi", "*@kfi", []lnet.NID{lnet.NIDFromNumber(lnet.MakeNet(lnet.TypeKFI, 0), 3)}, []lnet.NID{nidA}},
		{"*@lo", "*@lo", []lnet.NID{lnet.LoopbackNID}, []lnet.NID{nidA, {}}},
		{"10.0.0.1@tcp", "10.0.0.1@tcp", []lnet.NID{nidA}, []lnet.NID{nidB, nidOther, large, {}}},
		{"10.0.0.1@tcp1", "10.0.0.1@tcp1", []lnet.NID{nidOther}, []lnet.NID{nidA}},
		{"2001:db8::1@tcp", "2001:db8::1@tcp", []lnet.NID{large}, []lnet.NID{nidA, {}}},
	} {
		t.Run(c.text, func(t *testing.T) {
			f, err := fault.ParseNIDFilter(c.text)
			if err != nil {
				t.Fatal(err)
			}
			if f.String() != c.canonical {
				t.Errorf("prints as %q, want %q", f, c.canonical)
			}
			for _, n := range c.yes {
				if !f.Match(n) {
					t.Errorf("does not match %q", n)
				}
			}
			for _, n := range c.no {
				if f.Match(n) {
					t.Errorf("matches %q", n)
				}
			}
		})
	}
}

func TestNIDFilterRefusesOtherText(t *testing.T) {
	for _, s := range []string{"", "*@", "*@tpc", "*@tcp@tcp", "10.0.0.*@tcp", "tcp", "**", "10.0.0.1@"} {
		f := fault.Only(nidA)
		err := f.UnmarshalText([]byte(s))
		var field *lnet.FieldError
		if !errors.As(err, &field) {
			t.Errorf("%q: error %v, want a FieldError", s, err)
		}
		if f != fault.Only(nidA) {
			t.Errorf("%q: the filter changed to %s", s, f)
		}
	}
}

func TestNIDFilterTextReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		net := lnet.MakeNet(rapid.SampledFrom([]lnet.NetType{lnet.TypeTCP, lnet.TypeO2IB, lnet.TypeKFI}).Draw(t, "type"),
			rapid.Uint16().Draw(t, "number"))
		f := rapid.SampledFrom([]fault.NIDFilter{
			{}, fault.On(net), fault.On(lnet.NetAny), fault.Only(lnet.AnyNID),
			fault.Only(lnet.NIDFromNumber(net, rapid.Uint32().Draw(t, "address"))),
		}).Draw(t, "filter")
		text, err := f.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var got fault.NIDFilter
		if err := got.UnmarshalText(text); err != nil || got != f {
			t.Fatalf("%s reads back as %s, %v", text, got, err)
		}
	})
}
