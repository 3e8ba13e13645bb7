package modparam

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/lnet"
)

// values holds valid values of parameters for which a small number may not be valid.
var values = map[string][]string{
	"accept": {"secure", "all", "none"}, "forwarding": {"enabled", "disabled"},
	"lnet_drop_asym_route": {"0", "1", "y", "N"}, "lnet_peer_discovery_disabled": {"0", "1"},
	"lnet_retry_count": {"0", "2", "5"}, "lnet_transaction_timeout": {"50", "0x80"}, "lnet_interfaces_max": {"16", "200"},
	"lnet_health_sensitivity": {"1", "100"}, "lnet_max_recovery_ping_interval": {"1", "64"}, "router_ping_timeout": {"7"},
	"lnet_response_tracking": {"0", "3"}, "max_reconnectms": {"60000"}, "min_reconnectms": {"100", "1000"},
	"accept_port": {"988", "7988"}, "service": {"987", "1987"}, "peer_credits": {"8", "16"}, "credits": {"64", "0400"},
	"peer_credits_hiw": {"0", "4"}, "concurrent_sends": {"0", "8"}, "ntx": {"512"}, "wrq_sge": {"1", "2"},
	"tos": {"-1", "32"}, "conns_per_peer": {"0", "4"}, "cksum": {"0", "1"}, "accept_backlog": {"10"}, "accept_timeout": {"5"},
	"rpc_timeout": {"32"}, "session_timeout": {"90"}, "tx_buffer_size": {"0", "65536"}, "rx_buffer_size": {"0", "65536"},
}

// machine returns a host with eth0 and eth1.
func machine() []config.Interface {
	return []config.Interface{
		{Name: "eth0", Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.11")}, Up: true},
		{Name: "eth1", Addrs: []netip.Addr{netip.MustParseAddr("10.1.0.12")}, Up: true},
	}
}

// modprobeText draws a modprobe file whose strings mean the same in YAML: each ip2nets rule is
// the only one for its net and names the interface with such an address, and no gateway is this
// node.
func modprobeText(t *rapid.T) string {
	var lines []string
	option := func(module, assignments string) {
		lines = append(lines, "options "+module+" "+assignments)
	}
	switch rapid.IntRange(0, 3).Draw(t, "nets") {
	case 0:
		option("lnet", `networks="`+strings.Join(rapid.SliceOfNDistinct(rapid.SampledFrom([]string{
			"tcp", "tcp1(eth0)", "tcp2(eth0,eth1)", "tcp3(eth1)[0]", "tcp4(eth0[0],eth1)", "o2ib(ib0)", "lo",
			"tcp5(eth1), tcp5(eth0)", "tcp1(eth1)",
		}), 1, 5, rapid.ID[string]).Filter(func(s []string) bool { return !slices.Equal(s, []string{"lo"}) }).Draw(t, "networks"), ",")+`"`)
	case 1:
		option("lnet", `'ip2nets="`+strings.Join(rapid.SliceOfNDistinct(rapid.SampledFrom([]string{
			"tcp(eth0) 10.0.0.*", "tcp1(eth1) 10.[0-9].*.*; o2ib2(ib0) 172.16.0.*", "tcp3(eth0)[0] 10.0.0.[1-20/2] 10.0.0.11", "tcp4(eth1) 192.168.*.*",
		}), 1, 4, rapid.ID[string]).Draw(t, "ip2nets"), ";")+`"'`)
	case 2:
		option("lnet", "networks="+rapid.SampledFrom([]string{"tcp", "tcp(eth0)", "o2ib"}).Draw(t, "network"))
	}
	if rapid.Bool().Draw(t, "routed") {
		option("lnet", `routes="`+strings.Join(rapid.SliceOfNDistinct(rapid.SampledFrom([]string{
			"tcp7 10.0.0.1@tcp", "tcp[8-9] 2 10.0.0.[20-21]@tcp:1", "o2ib9 10.0.0.1@tcp1:3", "gni 5 10.9.0.1@o2ib", "tcp6 1 10.0.0.9",
		}), 1, 4, rapid.ID[string]).Draw(t, "routes"), "; ")+`"`)
	}
	for range rapid.IntRange(0, 12).Draw(t, "options") {
		module := rapid.SampledFrom(slices.Sorted(maps.Keys(modules))).Draw(t, "module")
		name := rapid.SampledFrom(slices.Sorted(maps.Keys(modules[module]))).Filter(func(name string) bool {
			_, isString := kinds[name]
			return !isString
		}).Draw(t, "name")
		of, ok := values[name]
		if !ok {
			of = []string{"0", "1"}
		}
		if strings.HasPrefix(name, "lnet_") || rapid.Bool().Draw(t, "joined") && len(lines) > 0 && strings.HasPrefix(lines[len(lines)-1], "options "+module+" ") {
			option(module, "\\\n  "+name+"="+rapid.SampledFrom(of).Draw(t, "value"))
			continue
		}
		option(module, strings.ReplaceAll(name, "_", rapid.SampledFrom([]string{"_", "-"}).Draw(t, "blank"))+`="`+rapid.SampledFrom(of).Draw(t, "value")+`"`)
	}
	return strings.Join(rapid.Permutation(lines).Draw(t, "lines"), "\n")
}

// The YAML of legacy2yaml describes the same node as the modprobe file itself.
func TestConversionKeepsWhatAFileMeans(t *testing.T) {
	options := tables()
	read := func(t *rapid.T, yaml []byte) (config.Config, string) {
		c, err := config.Parse("x", yaml, options)
		if err != nil {
			return c, err.Error()
		}
		c.State, err = c.Settle(machine())
		c.Site, c.Warnings, c.Given = config.Site{}, nil, config.Given{}
		if err != nil {
			return c, "no rule matches"
		}
		return c, ""
	}
	alike := cmp.Options{
		cmp.Comparer(func(a, b lnet.NID) bool { return a == b }), cmpopts.EquateEmpty(),
		cmpopts.IgnoreFields(config.NI{}, "Where"), cmpopts.IgnoreFields(config.Route{}, "Where"),
	}
	rapid.Check(t, func(t *rapid.T) {
		text := modprobeText(t)
		asItIs, warnings, err := Configuration("x", []byte(text))
		if err != nil {
			if !strings.Contains(err.Error(), "has no option that lnetd uses") {
				t.Fatalf("%v of\n%s", err, text)
			}
			return
		}
		converted, _, err := Convert([]Text{{"x", Modprobe, []byte(text)}}, 0)
		if err != nil {
			t.Fatalf("%v of\n%s", err, text)
		}
		want, wrong := read(t, asItIs)
		got, gotWrong := read(t, converted)
		if (wrong == "") != (gotWrong == "") {
			t.Fatalf("imported: %s\nconverted: %s\nof\n%s\n->\n%s", wrong, gotWrong, text, converted)
		}
		if wrong != "" { // values that lnetd rejects
			return
		}
		if diff := cmp.Diff(want, got, alike); diff != "" {
			t.Fatalf("-import --modprobe, +import of legacy2yaml:\n%s\nof\n%s\n->\n%s\n%s", diff, text, converted, fmt.Sprint(warnings))
		}
	})
}
