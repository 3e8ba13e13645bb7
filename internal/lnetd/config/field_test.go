package config_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/daemon"
)

// The messages about files of real sites: exports and hand-written files for releases from 2.7
// on. In testdata/field, each file is followed by its messages.
func TestFieldFiles(t *testing.T) {
	name := filepath.Join("testdata", "field", "field.txtar")
	archive, err := txtar.ParseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	options := daemon.AllDrivers().Options()
	for k := 0; k+1 < len(archive.Files); k += 2 {
		in, want := archive.Files[k], &archive.Files[k+1]
		c, err := config.Parse("lnet.conf", in.Data, options)
		got := ""
		switch {
		case err != nil:
			got = "refused\n" + err.Error() + "\n"
		case len(c.Warnings) > 0:
			got = c.Warnings.Error() + "\n"
		}
		if *update {
			want.Data = []byte(got)
		} else if diff := cmp.Diff(string(want.Data), got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", in.Name, diff)
		}
	}
	if *update {
		if err := os.WriteFile(name, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// LND tunables mean the same directly under "tunables", as in exports of 2.9 and 2.10, and under
// "lnd tunables". The latter take precedence.
func TestDirectTunables(t *testing.T) {
	options := daemon.AllDrivers().Options()
	parse := func(text string) []config.NI {
		t.Helper()
		c, err := config.Parse("f", []byte(text), options)
		if err != nil || len(c.NIs) == 0 {
			t.Fatalf("%v %v %s", err, c.Warnings, text)
		}
		for k := range c.NIs {
			c.NIs[k].Where = ""
		}
		return c.NIs
	}
	for name, pair := range map[string][2]string{
		"an NI": {
			"net: [{net type: o2ib, local NI(s): [{interfaces: {0: ib0}, tunables: {peer_credits: 16, peercredits_hiw: 8, map_on_demand: 1, ntx: 512}}]}]",
			"net: [{net type: o2ib, local NI(s): [{interfaces: {0: ib0}, tunables: {peer_credits: 16}, lnd tunables: {peercredits_hiw: 8, map_on_demand: 1, ntx: 512}}]}]",
		},
		"a net": {
			"net: [{net type: tcp, tunables: {conns_per_peer: 3, tos: 8}, local NI(s): [{interfaces: {0: eth0}}]}]",
			"net: [{net type: tcp, lnd tunables: {conns_per_peer: 3, tos: 8}, local NI(s): [{interfaces: {0: eth0}}]}]",
		},
		"an NI over its net": {
			"net: [{net type: tcp, lnd tunables: {conns_per_peer: 3}, local NI(s): [{interfaces: {0: eth0}, tunables: {conns_per_peer: 5}}, {interfaces: {0: eth1}, tunables: {}}]}]",
			"net: [{net type: tcp, local NI(s): [{interfaces: {0: eth0}, lnd tunables: {conns_per_peer: 5}}, {interfaces: {0: eth1}, lnd tunables: {conns_per_peer: 3}}]}]",
		},
		"both": {
			"net: [{net type: tcp, interfaces: {0: eth0}, tunables: {conns_per_peer: 3, tos: 8}, lnd tunables: {conns_per_peer: 4}}]",
			"net: [{net type: tcp, interfaces: {0: eth0}, lnd tunables: {conns_per_peer: 4, tos: 8}}]",
		},
		"a net without interfaces": {"net: [{net type: tcp}]", `lnetd: {networks: tcp}`},
	} {
		if diff := cmp.Diff(parse(pair[1]), parse(pair[0]), alike); diff != "" {
			t.Errorf("%s: -lnd tunables +tunables:\n%s", name, diff)
		}
	}
}
