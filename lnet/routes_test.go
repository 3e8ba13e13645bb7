package lnet

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func (r Route) testString() string {
	return fmt.Sprintf("%v %d %v:%d", r.Net, r.Hops, r.Gateway, r.Priority)
}

// lnet-wire 3.8
// lnetctl 13 (2)
func TestParseRoutes(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want []string
	}{
		{"tcp0 10.0.0.1@o2ib0", []string{"tcp 0 10.0.0.1@o2ib:0"}},
		{"tcp0 1 10.0.0.1@o2ib0", []string{"tcp 1 10.0.0.1@o2ib:0"}},
		{"tcp1 255 10.0.0.1@tcp", []string{"tcp1 255 10.0.0.1@tcp:0"}},
		{"o2ib 10.1.0.1@tcp0:9", []string{"o2ib 0 10.1.0.1@tcp:9"}},
		{
			"tcp[1-3] 10.0.0.[1,2]@tcp:1",
			[]string{
				"tcp1 0 10.0.0.1@tcp:1", "tcp1 0 10.0.0.2@tcp:1", "tcp2 0 10.0.0.1@tcp:1",
				"tcp2 0 10.0.0.2@tcp:1", "tcp3 0 10.0.0.1@tcp:1", "tcp3 0 10.0.0.2@tcp:1",
			},
		},
		// A priority applies to its own gateway only.
		{
			"tcp1 2 10.0.0.1@tcp:3 10.0.0.2@tcp 10.0.0.3@tcp:4",
			[]string{"tcp1 2 10.0.0.1@tcp:3", "tcp1 2 10.0.0.2@tcp:0", "tcp1 2 10.0.0.3@tcp:4"},
		},
		{
			"# all of it\n tcp1\t10.0.0.1@tcp # one\r\n;; o2ib 10.0.0.2@tcp;",
			[]string{"tcp1 0 10.0.0.1@tcp:0", "o2ib 0 10.0.0.2@tcp:0"},
		},
		// A gateway without a net is on tcp.
		{"o2ib 10.0.0.1", []string{"o2ib 0 10.0.0.1@tcp:0"}},
		{"o2ib 10.0.0.1:5", []string{"o2ib 0 10.0.0.1@tcp:5"}},
		{"o2ib 2001:db8::1", []string{"o2ib 0 2001:db8::1@tcp:0"}},
		{"o2ib 2001:db8::1@tcp", []string{"o2ib 0 2001:db8::1@tcp:0"}},
		{"o2ib 2001:db8::1@tcp2:7", []string{"o2ib 0 2001:db8::1@tcp2:7"}},
		{"kfi 4660@gni:1", []string{"kfi 0 4660@gni:1"}},
		{"<17:2> 1f@<200:0>:1", []string{"<17:2> 0 1f@<200:0>:1"}},
		{"<17:2> 1f@<200:0>", []string{"<17:2> 0 1f@<200:0>:0"}},
		// Items are texts, or ranges whose ends are a multiple of the stride apart.
		{"[tcp,o2ib]3 10.0.0.1@gip", []string{"tcp3 0 10.0.0.1@gip:0", "o2ib3 0 10.0.0.1@gip:0"}},
		{"tcp[2-6/2] 10.0.0.1@o2ib", []string{"tcp2 0 10.0.0.1@o2ib:0", "tcp4 0 10.0.0.1@o2ib:0", "tcp6 0 10.0.0.1@o2ib:0"}},
		{"kfi 10.0.[1,3-4].1@[tcp,o2ib]", []string{
			"kfi 0 10.0.1.1@tcp:0", "kfi 0 10.0.1.1@o2ib:0", "kfi 0 10.0.3.1@tcp:0",
			"kfi 0 10.0.3.1@o2ib:0", "kfi 0 10.0.4.1@tcp:0", "kfi 0 10.0.4.1@o2ib:0",
		}},
		{"o2ib 2001:db8::[a,b]@tcp", []string{"o2ib 0 2001:db8::a@tcp:0", "o2ib 0 2001:db8::b@tcp:0"}},
		{"tcp1 10.0.0.1@tcp:4294967295", []string{"tcp1 0 10.0.0.1@tcp:4294967295"}},
		{"", nil},
	} {
		t.Run(tt.in, func(t *testing.T) {
			routes, err := ParseRoutes(tt.in)
			var got []string
			for _, r := range routes {
				got = append(got, r.testString())
			}
			if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// lnet-wire 3.8
func TestParseRoutesRefuses(t *testing.T) {
	for in, want := range map[string]error{
		"tcp1":                         errNoGateway,
		"tcp1 2":                       errNoGateway,
		"tcp1 0 10.0.0.1@tcp":          errHops,
		"tcp1 256 10.0.0.1@tcp":        errHops,
		"tcp1 10.0.0.1@tcp:":           errPriority,
		"tcp1 10.0.0.1@tcp:x":          errPriority,
		"tcp1 10.0.0.1@tcp:-1":         errPriority,
		"tcp1 10.0.0.1@tcp:4294967296": errPriority,
		"tcp1 10.0.0.1@tcp:1:2":        errPriority,
		"tcp1 :5":                      errGatewayNID,
		"tcp1 5:0":                     errGatewayNID,
		"tcp1 <?>":                     errGatewayNID,
		"lo 10.0.0.1@tcp":              errLoRoute,
		"tcp1 0@lo":                    errLoRoute,
		"foo 10.0.0.1@tcp":             ErrUnknownType,
		"tcp65536 10.0.0.1@tcp":        errNetNumber,
		"tcp1 10.0.0@tcp":              errDottedQuad,
		"tcp1 10.0.0.1@tcp 5":          errGatewayNID,
		"tcp1 2 3 10.0.0.1@tcp":        errGatewayNID,
		"tcp1 10.0.0.*@tcp":            errDottedQuad,

		"tcp[1-4/2] 10.0.0.1@tcp":           errNotMultiple,
		"tcp[2-1] 10.0.0.1@tcp":             errWrongOrder,
		"tcp[1-2/0] 10.0.0.1@tcp":           errNoStride,
		"tcp[1- 10.0.0.1@tcp":               errBracketSet,
		"tcp1] 10.0.0.1@tcp":                errBracketOrder,
		"tcp[[1]] 10.0.0.1@tcp":             errBracketOrder,
		"tcp[] 10.0.0.1@tcp":                errEmptyInList,
		"tcp[1,] 10.0.0.1@tcp":              errEmptyInList,
		"tcp[1-] 10.0.0.1@tcp":              errMissing,
		"tcp[1-65535] 10.0.[1-2].1@tcp":     errManyRoutes,
		"tcp[1-4294967295] 10.0.0.1@tcp":    errManyRoutes,
		"tcp 1.[1-255].[1-255].[1-255]":     errManyRoutes,
		"tcp[1,2] [0-4294967295].0.0.1":     errManyRoutes,
		"tcp1 10.0.0.1@tcp;tcp2":            errNoGateway,
		"tcp1 " + strings.Repeat("x", 4096): errTooLong,
	} {
		got, err := ParseRoutes(in)
		if !errors.Is(err, want) || got != nil {
			t.Errorf("%q gives %d routes, %v, want %v", in, len(got), err, want)
			continue
		}
		wantNamed(t, err)
	}
}

func TestParseRoutesLimitsTotal(t *testing.T) {
	entry := "tcp[1-60000] 10.0.0.1@o2ib"
	if got, err := ParseRoutes(entry); err != nil || len(got) != 60000 {
		t.Errorf("one entry: %d routes, %v", len(got), err)
	}
	if _, err := ParseRoutes(entry + ";" + entry); !errors.Is(err, errManyRoutes) {
		t.Errorf("two entries: %v", err)
	}
}

// Entries keep the text as written, for tools that only pass it on.
func TestParseRouteEntries(t *testing.T) {
	got, err := ParseRouteEntries("tcp7 8 10.3.3.[6-12]@tcp:20; o2ib[1-3] 10.0.0.1 10.0.0.2:0")
	want := []RouteEntry{
		{Net: "tcp7", Hops: 8, Gateways: []GatewaySpec{{NID: "10.3.3.[6-12]@tcp", Priority: 20}}},
		{Net: "o2ib[1-3]", Gateways: []GatewaySpec{{NID: "10.0.0.1"}, {NID: "10.0.0.2"}}},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Fatalf("%v (-want +got):\n%s", err, diff)
	}
	for i, text := range []string{"tcp7 8 10.3.3.[6-12]@tcp:20", "o2ib[1-3] 10.0.0.1 10.0.0.2"} {
		if got[i].String() != text {
			t.Errorf("entry prints %q, want %q", got[i].String(), text)
		}
	}
}

func TestHopcountIsNamed(t *testing.T) {
	_, err := ParseRouteEntries("tcp0 0 10.0.0.1@o2ib0")
	if err == nil || !strings.Contains(err.Error(), "hopcount") {
		t.Errorf("error %v", err)
	}
}

func TestRoutesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want []RouteEntry
		var texts []string
		for range rapid.IntRange(1, 4).Draw(t, "entries") {
			e := RouteEntry{Net: genNet().Draw(t, "net").String(), Hops: rapid.Uint8().Draw(t, "hops")}
			for range rapid.IntRange(1, 4).Draw(t, "gateways") {
				e.Gateways = append(e.Gateways, GatewaySpec{
					NID: genInterfaceNID().Draw(t, "nid").String(), Priority: rapid.Uint32().Draw(t, "priority"),
				})
			}
			want = append(want, e)
			texts = append(texts, e.String())
		}
		got, err := ParseRouteEntries(strings.Join(texts, ";"))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Fatalf("%v (-want +got):\n%s", err, diff)
		}
		for i := range got {
			routes, err := got[i].Routes()
			if err != nil || len(routes) != len(want[i].Gateways) {
				t.Fatalf("%q: %d routes, %v", got[i].String(), len(routes), err)
			}
			for j, r := range routes {
				g := want[i].Gateways[j]
				if r.Net.String() != want[i].Net || r.Gateway.String() != g.NID || r.Priority != g.Priority || r.Hops != want[i].Hops {
					t.Errorf("%q: route %s", got[i].String(), r.testString())
				}
			}
		}
	})
}
