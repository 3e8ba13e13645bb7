package fuzz

import (
	"errors"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/daemon"
)

// FuzzConfig parses configurations. An error must have a position and a text. A valid configuration must
// have NIs that a driver can open.
func FuzzConfig(f *testing.F) {
	options := daemon.AllDrivers().Options()
	// Small seeds, because Go's fuzzing engine takes long to minimise large inputs.
	addBytes(f,
		"net:\n-     net type: tcp\n      local NI(s):\n      -     interfaces:\n                  0: eth0\n            tunables:\n"+
			"                  peer_credits: 8\n            lnd tunables:\n                  tos: -1\n            CPT: \"[0]\"\n",
		"route: [{net: tcp1, gateway: '10.0.0.[1-3]@tcp', hop: -1}]\npeer: [{primary nid: 1.2.3.4@tcp, Multi-Rail: True, peer ni: [{nid: ::1@tcp2}]}]\n",
		"global: {retry_count: 2, transaction_timeout: \"50\"}\nudsp: [{idx: 0, src: tcp*, action: {priority: 0}}]\nrouting: {enable: 1}\n",
		"ping: {nids: {0: 10.0.0.[1-3]@tcp}, timeout: 5, source: 1.2.3.4@tcp}\ndiscover: {nids: [0@lo]}\n",
		"ip2nets: [{net-spec: tcp, interfaces: [eth0], ip-range: {0: '10.[0,1].*.*', 1: '::/3'}, CPT: '[0-3/2]'}]\n",
		"net: [{net: mpi, nid: 10.0.0.1@mpi, proxy: mpi}]\nlnetd: {proxies: {net_types: [{name: mpi, number: 127}], rules: [{name: a, nets: [mpi1], memory: 4}]}}\n",
		"net: [{net: tcp, pattern: 10.0.0.*, intf: 'eth0[1]'}]\nnumber: [\n--- &a\n- *a\n",
		"net:\n\t- net type:tcp\n  local NI(s):\n   - \"\nlnetd:\n    routes: 'tcp[7-8] 1 10.0.0.[20-21]@tcp:1'\n",
		// Depth, aliases, and what looks like text.
		"net: "+strings.Repeat("[", 70)+strings.Repeat("]", 70)+"\n", strings.Repeat("- ", 70)+"\n", "net: "+strings.Repeat("{? ", 70)+"\n",
		"net: "+strings.Repeat("[ #]\n ", 70), "net: '["+strings.Repeat("[", 70)+"'\n", "\xff\xfe"+strings.Repeat("[\x00", 70),
		"a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nnet: [*c, *c]\n", "net: "+strings.Repeat("&a ", 30)+"\n", "net: [&a {<<: *a}, *a, *b]\n",
		"\ufeffroute:\r\n- net: tcp1\r\n\tgateway: \x00\r", strings.Repeat("---\nnet:\n", 20), "a "+strings.Repeat("b ", 70),
	)
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := config.Parse("f", text, options)
		named(t, err)
		if err == nil {
			for k := range c.NIs {
				if c.NIs[k].Net == 0 {
					t.Fatalf("%+v", c.NIs[k])
				}
			}
		}
		errands, err := config.ParseRequests(t.Context(), "f", text)
		named(t, err)
		for _, e := range errands {
			if len(e.NIDs) == 0 {
				t.Fatalf("%+v", e)
			}
		}
	})
}

func addBytes(f *testing.F, texts ...string) {
	f.Helper()
	for _, s := range texts {
		f.Add([]byte(s))
	}
}

// named checks that an error of a configuration says what is wrong and where.
func named(t *testing.T, err error) {
	t.Helper()
	var problems config.Problems
	if err == nil {
		return
	}
	if !errors.As(err, &problems) || len(problems) == 0 {
		t.Fatalf("%T: %v", err, err)
	}
	for _, p := range problems {
		if p.Text == "" || p.File != "f" || p.Line < 0 {
			t.Fatalf("%+v", p)
		}
	}
}
