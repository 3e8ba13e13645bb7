package daemon

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/parameters"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/fabric"
	"github.com/lnetd/lnetd/lnet"
)

// variants is the number of values that are tried for each tunable.
const variants = 5

// variant returns the kth value to try for a tunable, or false to leave it out.
func variant(o *lnd.Tunable, k int) (int64, bool) {
	values := []int64{o.Default, o.Min, o.Default + 1, o.Default + 3}
	if k == 0 {
		return 0, false
	}
	return min(max(values[k-1], o.Min), o.Max), true
}

// tunablesAt returns the kth value of each tunable that has a key.
func tunablesAt(tunables []lnd.Tunable, k int, key func(*lnd.Tunable) string) map[string]any {
	out := map[string]any{}
	for n := range tunables {
		o := &tunables[n]
		if v, ok := variant(o, k); ok && key(o) != "" {
			out[key(o)] = v
		}
	}
	return out
}

// commonTunables are the parameters of drivers that are the defaults of the tunables that all drivers
// share.
var commonTunables = []string{"credits", "peer_credits", "peer_buffer_credits", "peer_timeout"}

// allTunables returns a document with one NI for each value of an NI's tunables. The driver has the
// kth value of each.
func allTunables(d *Driver, k int) document {
	parameter := func(o *lnd.Tunable) string {
		if o.Name == "" && !slices.Contains(commonTunables, o.Parameter) {
			return ""
		}
		return o.Parameter
	}
	var nets []any
	for n := range variants {
		nets = append(nets, map[string]any{"net type": lnet.MakeNet(d.Type, uint16(n)).String(), "local NI(s)": []any{map[string]any{
			"interfaces":   []any{"eth0"},
			"lnd tunables": tunablesAt(d.Tunables, n, func(o *lnd.Tunable) string { return o.Name }),
			"tunables": tunablesAt(d.Tunables, n, func(o *lnd.Tunable) string {
				if o.Name != "" {
					return ""
				}
				return parameter(o)
			}),
		}}})
	}
	return document{"net": nets, "lnetd": map[string]any{d.Section: tunablesAt(d.Tunables, k, parameter)}}
}

// export returns "export" of the NIs of a node, and of its drivers, as YAML.
func export(t *testing.T, r *nodeRun) string {
	t.Helper()
	var nets []any
	for _, n := range r.Nets() {
		var nis []any
		for k := range n.NIs {
			nis = append(nis, exportNI(&n.NIs[k]))
		}
		nets = append(nets, map[string]any{"net type": n.Net.String(), "local NI(s)": nis})
	}
	return document{"net": nets, "lnetd": r.configuration(t).Lnetd}.text(t)
}

func exportNI(ni *api.NI) map[string]any {
	m := backupNI(ni)
	m["nid"] = ni.NID.String()
	if len(ni.Interfaces) == 0 {
		delete(m, "interfaces") // of 0@lo
	}
	return m
}

// tunablesOf are the tunables of an NI.
type tunablesOf struct {
	Common lnd.Tunables
	Own    lnd.Values
}

// tunablesInForce returns the tunables of all NIs, by NID.
func (r *nodeRun) tunablesInForce() map[string]tunablesOf {
	all := map[string]tunablesOf{}
	for _, i := range r.node.NIs() {
		all[i.NID.String()] = tunablesOf{i.Tunables, i.Options}
	}
	return all
}

// A node that starts with an export or a backup, or imports it, has the same tunables as the node that
// it is from, whatever its drivers and its NIs have. Its own export is the same, and to import it again
// changes nothing.
//
// lnetctl 8 (3)
func TestExportsKeepTunables(t *testing.T) {
	for _, typ := range []lnet.NetType{lnet.TypeTCP, lnet.TypeO2IB} {
		for k := range variants {
			t.Run(fmt.Sprint(typ, " ", k), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testExportsKeepTunables(t, typ, k) })
			})
		}
	}
}

func testExportsKeepTunables(t *testing.T, typ lnet.NetType, k int) {
	drivers := func() Drivers {
		f := fabric.New(fabric.Config{}) // each node is alone on its fabric
		t.Cleanup(f.Close)
		return fabricHost(t, f, "a", "10.77.0.11")
	}
	start := func(text string) *nodeRun {
		t.Helper()
		drivers := drivers()
		c, err := config.Parse("start.yaml", []byte(text), drivers.Options())
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		return startNodeWith(t, c, drivers).ready(t)
	}
	first := start(allTunables(drivers().of(typ), k).text(t))
	want := first.tunablesInForce()
	if len(want) != 1+variants {
		t.Fatalf("NIs that are up: %v\n%s", want, first.log)
	}
	for what, of := range map[string]func(*testing.T, *nodeRun) string{"export": export, "backup": backup} {
		text := of(t, first)
		first.settles(t, api.ModeReplace, text)
		first.settles(t, api.ModeAdd, text)

		imported := start("{}")
		for _, configured := range []bool{false, true} {
			imported.setLNet(t, api.LNet{Configured: configured})
		}
		if _, err := imported.takes(t, api.ModeAdd, text); err != nil {
			t.Fatal(err)
		}
		for how, second := range map[string]*nodeRun{"started with": start(text), "with an import of": imported} {
			if diff := cmp.Diff(want, second.tunablesInForce()); diff != "" {
				t.Errorf("tunables of a node and of one %s its %s: %s\n%s", how, what, diff, text)
			}
			if diff := cmp.Diff(text, of(t, second)); diff != "" {
				t.Errorf("%s of a node and of one %s it: %s", what, how, diff)
			}
		}
	}
}

// A node that starts with an export or a backup has the same parameters as the node that it is from,
// whatever they are.
//
// lnetctl 8 (3)
func TestExportsKeepParameters(t *testing.T) {
	for _, p := range parameters.Table() {
		for _, v := range []int64{p.Min, p.Default + 1, p.Default - 1, p.Max} {
			if p.Range().Check(v) != nil {
				continue
			}
			t.Run(fmt.Sprintf("%s %d", p.Name, v), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					settings := map[string]any{p.Name: v}
					if p.Bounded {
						settings["transaction_timeout"] = p.Max // retry_count is less
						settings[p.Name] = min(v, p.Max-1)
					}
					if p.Name == "health_sensitivity" || p.Name == "transaction_timeout" {
						settings["retry_count"] = 0
					}
					first := startNode(t, parse(t, document{p.Section: settings}.text(t))).ready(t)
					saved := backup(t, first)
					first.settles(t, api.ModeReplace, saved)
					first.settles(t, api.ModeAdd, saved)
					second := startNode(t, parse(t, saved)).ready(t)
					same(t, "(-node +node of its backup)", first, second)
					if diff := cmp.Diff(first.node.allParameters(), second.node.allParameters()); diff != "" {
						t.Error(diff)
					}
				})
			})
		}
	}
}

// An NI of a document that is added keeps all tunables that the document leaves out, those that can be
// changed while it is up and the others. A document that replaces the configuration resets them.
//
// decisions 235
func TestTunablesThatADocumentLeavesOut(t *testing.T) {
	for _, typ := range []lnet.NetType{lnet.TypeTCP, lnet.TypeO2IB} {
		t.Run(typ.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testTunablesThatADocumentLeavesOut(t, typ) })
		})
	}
}

func testTunablesThatADocumentLeavesOut(t *testing.T, typ lnet.NetType) {
	f := fabric.New(fabric.Config{})
	t.Cleanup(f.Close)
	drivers := fabricHost(t, f, "a", "10.77.0.11")
	tunables := drivers.of(typ).Tunables
	own := func(o *lnd.Tunable) string { return o.Name }
	const k = variants - 1
	ni := func(lnd, common map[string]any) string {
		m := map[string]any{"interfaces": []any{"eth0"}, "lnd tunables": lnd, "tunables": common}
		if lnd == nil {
			delete(m, "lnd tunables")
		}
		if common == nil {
			delete(m, "tunables")
		}
		return document{"net": []any{map[string]any{"net type": typ.String(), "local NI(s)": []any{m}}}}.text(t)
	}
	c, err := config.Parse("start.yaml", []byte(ni(tunablesAt(tunables, k, own), map[string]any{
		"credits": 100, "peer_credits": 20, "peer_buffer_credits": 7, "peer_timeout": 33,
	})), drivers.Options())
	if err != nil {
		t.Fatal(err)
	}
	r := startNodeWith(t, c, drivers).ready(t)
	seconds := 65
	if err := r.SetNITunables(t.Context(), api.NITunables{Net: lnet.MakeNet(typ, 0), LNDTimeout: &seconds}); err != nil {
		t.Fatal(err)
	}
	shown := func() string { return export(t, r) }
	before, text := shown(), ni(nil, nil)
	r.settles(t, api.ModeAdd, text)
	if _, err := r.takes(t, api.ModeAdd, text); err != nil {
		t.Error(err)
	}
	for n := range tunables { // one is given, and is what it is already
		if one := tunablesAt(tunables[n:n+1], k, own); len(one) > 0 {
			r.settles(t, api.ModeAdd, ni(one, nil))
		}
	}
	r.settles(t, api.ModeAdd, ni(nil, map[string]any{"credits": 100}))
	if diff := cmp.Diff(before, shown()); diff != "" {
		t.Errorf("documents without tunables change them: %s", diff)
	}
	if _, err := r.takes(t, api.ModeAdd, ni(map[string]any{"conns_per_peer": 3}, nil)); err != nil {
		t.Error(err)
	}
	if want := strings.Replace(before, "conns_per_peer: "+fmt.Sprint(tunablesAt(tunables, k, own)["conns_per_peer"]), "conns_per_peer: 3", 1); shown() != want {
		t.Errorf("with one tunable: %s", cmp.Diff(want, shown()))
	}
	for _, wrong := range []string{ni(map[string]any{"tos": 9}, nil), ni(nil, map[string]any{"credits": 101})} {
		if _, err := r.takes(t, api.ModeAdd, wrong); err == nil || !strings.Contains(err.Error(), "with other tunables") {
			t.Errorf("error %v of\n%s", err, wrong)
		}
	}
	if _, err := r.takes(t, api.ModeReplace, text); err != nil {
		t.Fatal(err)
	}
	g := fabric.New(fabric.Config{})
	t.Cleanup(g.Close)
	drivers = fabricHost(t, g, "a", "10.77.0.11")
	if c, err = config.Parse("start.yaml", []byte(text), drivers.Options()); err != nil {
		t.Fatal(err)
	}
	fresh := startNodeWith(t, c, drivers).ready(t)
	if diff := cmp.Diff(fresh.tunablesInForce(), r.tunablesInForce()); diff != "" {
		t.Errorf("a document that replaces them: %s", diff)
	}
}
