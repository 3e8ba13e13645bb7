package config

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// testDrivers have options of all kinds.
var testDrivers = []DriverOptions{
	{
		Table: lnd.Table{
			Type: lnet.TypeTCP, Section: "socklnd", About: "Of TCP.",
			Tunables: []lnd.Tunable{
				{Name: "conns_per_peer", Max: 127, Live: true},
				{Name: "timeout", Parameter: "sock_timeout", Max: 3600, Default: 50, Unit: lnd.Seconds, Live: true, PerNet: true},
				{Name: "tos", Min: -1, Max: 255, Default: -1, Clamped: true},
				{Parameter: "min_reconnectms", Min: 1, Max: 3600000, Default: 1000},
				{Parameter: "max_reconnectms", Min: 1, Max: 3600000, Default: 60000},
				{Parameter: "nagle", Kind: lnd.Bool, Max: 1},
			},
		},
		Own: []Option{
			{Name: PortOption, Kind: PortKind},
			{Name: ConnectPortOption, Kind: PortKind},
			{Name: "accept", Kind: Words{"secure", "all", "none"}},
			{Name: "source_ports", Kind: Words{"auto", "privileged", "any"}, Default: "auto"},
		},
		Check: checkReconnect,
	},
	{
		Table: lnd.Table{
			Type: lnet.TypeO2IB, Section: "o2iblnd", About: "Of o2ib.",
			Tunables: []lnd.Tunable{
				{Name: "map_on_demand", Kind: lnd.Bool, Max: 1},
				{Name: "ntx", Parameter: "ntx", Min: 1, Max: 1 << 20, Default: 512},
			},
		},
	},
}

func checkReconnect(v Values) error {
	low, high := 1000, 60000
	if n, ok := v.Number("min_reconnectms"); ok {
		low = n
	}
	if n, ok := v.Number("max_reconnectms"); ok {
		high = n
	}
	if low > high {
		return errors.New("reconnect: not in order")
	}
	return nil
}

func TestKinds(t *testing.T) {
	for _, tt := range []struct {
		kind Kind
		text string
		want string // empty if rejected
	}{
		{Whole{-1, 9}, "-1", "-1"},
		{Whole{-1, 9}, "0x9", "9"},
		{Whole{-1, 9}, "10", ""},
		{Whole{-1, 9}, "1_0", ""},
		{Within{-1, 9}, "10", "9"},
		{Within{-1, 9}, "-7", "-1"},
		{Within{-1, 9}, "many", ""},
		{Boolean{}, "Yes", "1"},
		{Boolean{}, "off", "0"},
		{Boolean{}, "2", ""},
		{Words{"a", "b"}, "b", "b"},
		{Words{"a", "b"}, "B", ""},
	} {
		got, err := tt.kind.read(tt.text)
		if err != nil {
			got = ""
		}
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%T%v reads %q as %q, %v", tt.kind, tt.kind, tt.text, got, err)
		}
	}
}

// Drivers have separate sections and tunables. A value that equals the default is treated as
// absent.
func TestOptionsOfSeveralDrivers(t *testing.T) {
	c := mustParse(t, `
lnetd:
    socklnd: {nagle: 1, sock_timeout: 50}
    o2iblnd: {ntx: 1024}
net:
  - net type: o2ib
    local NI(s):
      - interfaces: {0: ib0}
        lnd tunables: {map_on_demand: yes, ntx: 64, peer_credits_hiw: 4}
  - net type: kfi
    nid: 1@kfi
    lnd tunables: {any: 1}
`)
	want := map[lnet.NetType]Values{lnet.TypeTCP: {"nagle": "1"}, lnet.TypeO2IB: {"ntx": "1024"}}
	if diff := cmp.Diff(want, c.Drivers); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(lnd.Values{"map_on_demand": 1, "ntx": 64}, c.NIs[0].Options); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{
		"f:12: net[1].lnd tunables.any: Ignoring unrecognized key 'any' for 'lnd tunables'",
	}, plain(c.Warnings)); diff != "" {
		t.Error(diff)
	}
}

// The reference contains every key that can be set, except for sections about the node's state,
// which other tests check.
func TestReferenceIsWhole(t *testing.T) {
	r := newReading(t.Context(), "reference.yaml", testDrivers)
	r.seen = map[string]bool{}
	if _, err := r.config(Reference(testDrivers), Default()); err != nil {
		t.Fatal(err)
	}
	for section, keys := range map[string][]string{
		"global": slices.Collect(maps.Keys(globalKeys)),
		"lnetd": append(slices.Collect(maps.Keys(lnetdKeys)),
			"networks", "ip2nets", "routes", "socklnd", "o2iblnd", "selftest", "selection", "transport", "proxies", "metrics"),
		"buffers":         {"tiny", "small", "large"},
		"routing":         {"enable"},
		"numa":            {"range"},
		"lnetd.selftest":  slices.Collect(maps.Keys(selftestKeys)),
		"lnetd.transport": slices.Collect(maps.Keys(transportKeys)),
		"lnetd.proxies":   slices.Collect(maps.Keys(proxiesKeys)),
		"lnetd.metrics":   slices.Collect(maps.Keys(metricsKeys)),
	} {
		for _, key := range keys {
			if key != "max_intf" && !r.seen[section+"."+key] { // an old name of max_interfaces
				t.Errorf("the reference lacks %s.%s", section, key)
			}
		}
	}
	for k := range testDrivers {
		d := &testDrivers[k]
		for _, o := range d.Own {
			if !r.seen["lnetd."+o.Name] {
				t.Errorf("the reference lacks lnetd.%s", o.Name)
			}
		}
		for _, o := range d.parameters() {
			if !r.seen["lnetd."+d.Section+"."+o.Name] {
				t.Errorf("the reference lacks lnetd.%s.%s", d.Section, o.Name)
			}
		}
	}
}
