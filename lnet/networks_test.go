package lnet

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// lnet-wire 3.6 (1)-(2)
// lnetctl 13 (1)
func TestParseNetworks(t *testing.T) {
	one := func(v uint32) RangeExpr { return RangeExpr{{v, v, 1}} }
	tcp, tcp1, o2ib := MakeNet(TypeTCP, 0), MakeNet(TypeTCP, 1), MakeNet(TypeO2IB, 0)
	for _, tt := range []struct {
		in   string
		want Networks
		text string // empty: as it was
	}{
		{in: "tcp", want: Networks{{Net: tcp}}},
		{
			in: "tcp0(eth0),o2ib0(ib0)", text: "tcp(eth0),o2ib(ib0)",
			want: Networks{
				{Net: tcp, Interfaces: []InterfaceSpec{{Name: "eth0"}}},
				{Net: o2ib, Interfaces: []InterfaceSpec{{Name: "ib0"}}},
			},
		},
		{
			in: "tcp1(eth1[0],eth2[1-3])",
			want: Networks{{Net: tcp1, Interfaces: []InterfaceSpec{
				{Name: "eth1", CPTs: one(0)}, {Name: "eth2", CPTs: RangeExpr{{1, 3, 1}}},
			}}},
		},
		{
			in: "tcp(eth0)[0,2]",
			want: Networks{{
				Net: tcp, Interfaces: []InterfaceSpec{{Name: "eth0"}}, CPTs: RangeExpr{{0, 0, 1}, {2, 2, 1}},
			}},
		},
		{in: "tcp[1]", want: Networks{{Net: tcp, CPTs: one(1)}}},
		{in: "tcp[*]", text: "tcp[0-4294967295]", want: Networks{{Net: tcp, CPTs: RangeExpr{{0, math.MaxUint32, 1}}}}},
		{in: "tcp(eth0:1)", want: Networks{{Net: tcp, Interfaces: []InterfaceSpec{{Name: "eth0:1"}}}}},
		{
			in: "\n tcp1 ( eth1 [ 0 , 2 - 6 / 2 ] ,\teth2 ) [ 1 ] ,\v o2ib\r\n", text: "tcp1(eth1[0,2-6/2],eth2)[1],o2ib",
			want: Networks{
				{Net: tcp1, Interfaces: []InterfaceSpec{
					{Name: "eth1", CPTs: RangeExpr{{0, 0, 1}, {2, 6, 2}}}, {Name: "eth2"},
				}, CPTs: one(1)},
				{Net: o2ib},
			},
		},
		// One net may have several entries, whose interfaces add up.
		{
			in: "tcp(eth0),tcp(eth1),tcp",
			want: Networks{
				{Net: tcp, Interfaces: []InterfaceSpec{{Name: "eth0"}}},
				{Net: tcp, Interfaces: []InterfaceSpec{{Name: "eth1"}}},
				{Net: tcp},
			},
		},
		// One interface may be on several nets.
		{
			in: "tcp(eth0),tcp1(eth0)",
			want: Networks{
				{Net: tcp, Interfaces: []InterfaceSpec{{Name: "eth0"}}},
				{Net: tcp1, Interfaces: []InterfaceSpec{{Name: "eth0"}}},
			},
		},
		{in: "tcp,", text: "tcp", want: Networks{{Net: tcp}}},
		{in: "tcp , ", text: "tcp", want: Networks{{Net: tcp}}},
		{in: "lo", want: Networks{}},
		{in: "lo,tcp,lo(eth0)", text: "tcp", want: Networks{{Net: tcp}}},
	} {
		t.Run(tt.in, func(t *testing.T) {
			got, err := ParseNetworks(tt.in)
			if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
				t.Fatalf("%v (-want +got):\n%s", err, diff)
			}
			want := tt.text
			if want == "" {
				want = tt.in
			}
			if got.String() != want {
				t.Errorf("prints %q, want %q", got, want)
			}
		})
	}
}

// lnet-wire 3.6 (2)
func TestParseNetworksRefuses(t *testing.T) {
	for _, in := range []string{
		"", " ", ",", ",,", ",tcp", "tcp,,o2ib", "tcp,,",
		"foo", "tcpx", "tcp65536", "tcp 1", "tcp o2ib", "tcp:1", "tcp;o2ib", "lo1",
		"(eth0)", "[1]", "tcp(", "tcp)", "tcp()", "tcp(eth0", "tcp(eth0))", "tcp((eth0))", "tcp(eth0)(eth1)", "tcp(eth0)eth1", "tcp(eth0) x",
		"tcp(,eth0)", "tcp(eth0,)", "tcp(eth0,,eth1)", "tcp( )", "tcp(eth0 eth1)", "tcp(eth0", "tcp eth0)",
		"tcp[", "tcp]", "tcp[]", "tcp[1", "tcp1]", "tcp[1][2]", "tcp[[1]]", "tcp[1](eth0)", "tcp[a]", "tcp[1-]", "tcp[2-1]", "tcp[1-2/0]", "tcp[1,]",
		"tcp(eth0[)", "tcp(eth0])", "tcp(eth0[])", "tcp(eth0[1]x)", "tcp(eth0[1][2])", "tcp([1])", "tcp(eth0[1)]", "tcp[(1)]",
		"tcp(eth0,eth0)", "tcp(eth0),tcp(eth0)", "tcp(eth0[0]),o2ib,tcp0(eth1,eth0[1])",
		strings.Repeat(" ", maxModuleString) + "tcp",
	} {
		got, err := ParseNetworks(in)
		if err == nil || got != nil {
			t.Errorf("%q gives %v, %v, want an error", in, got, err)
			continue
		}
		wantNamed(t, err)
	}
}

func TestNetworksCPTs(t *testing.T) {
	n, err := ParseNetworks("tcp(eth0[0],eth1)[1-3]")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range map[int]string{0: "0", 1: "[1-3]", 2: "[1-3]", -1: "[1-3]"} {
		if got := n[0].CPTsOf(i).String(); got != want {
			t.Errorf("interface %d has CPTs %s, want %s", i, got, want)
		}
	}
}

func genNetworks() *rapid.Generator[Networks] {
	return rapid.Custom(func(t *rapid.T) Networks {
		cpts := rapid.OneOf(rapid.Just(RangeExpr(nil)), genRangeExpr(31))
		names := rapid.Permutation([]string{"eth0", "eth1", "eth0:1", "ib0", "bond0.17"}).Draw(t, "names")
		n := Networks{}
		for range rapid.IntRange(1, 5).Draw(t, "nets") {
			spec := NetSpec{Net: genNet().Draw(t, "net"), CPTs: cpts.Draw(t, "cpts")}
			for range rapid.IntRange(0, len(names)).Draw(t, "interfaces") {
				spec.Interfaces = append(spec.Interfaces, InterfaceSpec{Name: names[0], CPTs: cpts.Draw(t, "cpts")})
				names = names[1:]
			}
			n = append(n, spec)
		}
		return n
	})
}

func TestNetworksRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := genNetworks().Draw(t, "networks")
		got, err := ParseNetworks(want.String())
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Fatalf("%q: %v (-want +got):\n%s", want, err, diff)
		}
	})
}

func TestSplitOutside(t *testing.T) {
	got, err := splitOutside("a,b(c,d[1,2]),e[3,4],", ',')
	if want := []string{"a", "b(c,d[1,2])", "e[3,4]", ""}; err != nil || !slices.Equal(got, want) {
		t.Errorf("gives %q, %v, want %q", got, err, want)
	}
}
