package daemon

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/hostnet"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
)

// documents is small by default. For a long run:
// go test -run TestRandomDocuments -documents 10000
var documents = flag.Int("documents", testenv.Fewer(60), "how many random documents TestRandomDocuments applies")

var firstDocument = flag.Int("first-document", 0, "the first of them")

// document is a random document as a YAML value.
type document map[string]any

func (d document) text(t interface{ Fatal(...any) }) string {
	b, err := yaml.Marshal(map[string]any(d))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// drawDocument draws a document for a node with the interfaces eth0 and eth1.
func drawDocument(t *rapid.T, name string, drivers Drivers) document {
	d := document{"global": drawGlobals(t, name)}
	nets := drawNets(t, name, drivers)
	if len(nets) > 0 {
		var list []any
		for _, n := range nets {
			list = append(list, n)
		}
		d["net"] = list
	}
	local := map[string]bool{}
	for _, n := range nets {
		local[n["net type"].(string)] = true
	}
	if len(nets) == 0 {
		local["tcp"] = true // lnetd chooses it
	}
	d["route"] = drawRoutes(t, name, local)
	peers, primaries := drawPeers(t, name)
	d["peer"] = peers
	if list := drawPeerLists(t, name); len(list) > 0 {
		d["peers"] = list
	}
	if maybe(t, name+" udsp") {
		d["udsp"] = []any{
			map[string]any{"idx": 0, "src": pick(t, name+" src", "tcp", "tcp1"), "action": map[string]any{"priority": rapid.IntRange(0, 9).Draw(t, name+" priority")}},
			map[string]any{"idx": 1, "dst": "10.0.7.*@tcp", "rte": "10.77.0.20@tcp"},
		}
	}
	if maybe(t, name+" routing") {
		d["routing"] = map[string]any{"enable": rapid.IntRange(0, 1).Draw(t, name+" enable")}
	}
	if maybe(t, name+" buffers") {
		d["buffers"] = map[string]any{"tiny": rapid.IntRange(0, 40).Draw(t, name+" tiny"), "small": 16, "large": rapid.IntRange(0, 9).Draw(t, name+" large")}
	}
	lnetd := drawLnetd(t, name, drivers)
	if len(primaries) > 0 && maybe(t, name+" lock") {
		lnetd["lock_prim"] = primaries[:1]
	}
	if len(nets) > 0 && maybe(t, name+" timeouts") {
		lnetd["lnd_timeouts"] = []any{map[string]any{"net": nets[0]["net type"], "timeout": rapid.IntRange(0, 90).Draw(t, name+" timeout")}}
	}
	if len(lnetd) > 0 {
		d["lnetd"] = lnetd
	}
	maps.DeleteFunc(d, func(_ string, v any) bool { list, ok := v.([]any); return ok && len(list) == 0 })
	return d
}

func maybe(t *rapid.T, what string) bool { return rapid.Bool().Draw(t, what) }

func pick(t *rapid.T, what string, of ...string) string { return rapid.SampledFrom(of).Draw(t, what) }

// drawValue draws a value of an option, often its default. It returns false if the option is
// absent.
func drawValue(t *rapid.T, name string, lo, hi, usual int64) (any, bool) {
	if rapid.IntRange(0, 4).Draw(t, name+" given") > 0 {
		return nil, false
	}
	if maybe(t, name+" is the default") {
		return usual, true
	}
	return rapid.Int64Range(lo, min(hi, lo+300)).Draw(t, name), true
}

// drawTunables draws tunables of a driver, those of an NI or those of its section.
func drawTunables(t *rapid.T, name string, tunables []lnd.Tunable, key func(*lnd.Tunable) string) map[string]any {
	out := map[string]any{}
	for k := range tunables {
		o := &tunables[k]
		if key(o) == "" {
			continue
		}
		if v, ok := drawValue(t, name+" "+key(o), o.Min, o.Max, o.Default); ok {
			out[key(o)] = v
		}
	}
	return out
}

// drawNets draws nets with every tunable.
func drawNets(t *rapid.T, name string, drivers Drivers) (nets []map[string]any) {
	for _, net := range rapid.Permutation([]string{"tcp", "tcp1", "tcp2", "o2ib"}).Draw(t, name+" nets") {
		if !maybe(t, name+" "+net) {
			continue
		}
		devices := []any{"eth0", "eth1"}[:rapid.IntRange(1, 2).Draw(t, name+" devices of "+net)]
		ni := map[string]any{"interfaces": devices}
		credits := map[string]any{}
		for _, key := range []string{"peer_timeout", "peer_credits", "peer_buffer_credits", "credits"} {
			if maybe(t, name+" "+key) {
				credits[key] = rapid.IntRange(-1, 300).Draw(t, name+" "+key+" of "+net)
			}
		}
		ni["tunables"] = credits
		options := drivers[0].Tunables
		if net == "o2ib" {
			options = drivers[1].Tunables
		}
		ni["lnd tunables"] = drawTunables(t, name+" "+net, options, func(o *lnd.Tunable) string { return o.Name })
		nets = append(nets, map[string]any{"net type": net, "local NI(s)": []any{ni}})
	}
	return nets
}

func drawGlobals(t *rapid.T, name string) map[string]any {
	out := map[string]any{}
	retries := rapid.IntRange(0, 5).Draw(t, name+" retry_count")
	bounds := map[string][2]int{
		"numa_range": {0, 9}, "max_interfaces": {0, 100}, "discovery": {0, 2}, "drop_asym_route": {0, 1}, "retry_count": {retries, retries},
		"transaction_timeout": {6, 300}, "health_sensitivity": {1, 1000}, "router_sensitivity": {0, 100}, "response_tracking": {0, 3},
		"recovery_limit": {0, 300}, "max_recovery_ping_interval": {1, 900},
	}
	for _, key := range slices.Sorted(maps.Keys(bounds)) {
		v := bounds[key]
		if maybe(t, name+" "+key) {
			out[key] = rapid.IntRange(v[0], v[1]).Draw(t, name+" value of "+key)
		}
	}
	return out
}

func drawRoutes(t *rapid.T, name string, local map[string]bool) []any {
	var list []any
	for _, net := range []string{"tcp7", "tcp8", "o2ib3"} {
		for _, gateway := range []string{"10.77.0.20@tcp", "10.78.0.21@tcp1", "10.78.0.22@tcp2"} {
			_, on, _ := strings.Cut(gateway, "@")
			if !local[on] || !maybe(t, name+" route to "+net+" by "+gateway) {
				continue
			}
			list = append(list, map[string]any{
				"net": net, "gateway": gateway,
				"hop": pickInt(t, name+" hop", -1, 1, 3), "priority": rapid.IntRange(0, 2).Draw(t, name+" route's priority"),
			})
		}
	}
	return list
}

func pickInt(t *rapid.T, what string, of ...int) int { return rapid.SampledFrom(of).Draw(t, what) }

func drawPeers(t *rapid.T, name string) (list []any, primaries []any) {
	nets := []string{"tcp", "tcp1", "o2ib"}
	for k := range rapid.IntRange(0, 4).Draw(t, name+" peers") {
		primary := fmt.Sprintf("10.77.0.%d@%s", 20+k, nets[k%2])
		nids := []any{map[string]any{"nid": primary}}
		for i := range rapid.IntRange(0, 2).Draw(t, name+" NIDs") {
			nids = append(nids, map[string]any{"nid": fmt.Sprintf("10.80.%d.%d@%s", k, i, nets[(k%2+i+1)%3])})
		}
		list = append(list, map[string]any{"primary nid": primary, "Multi-Rail": maybe(t, name+" Multi-Rail"), "peer ni": nids})
		primaries = append(primaries, primary)
	}
	return list, primaries
}

// drawPeerLists draws entries of "peers" whose NIDs may also be in entries of "peer". They never
// contain NIDs of the first of those, which may be locked.
func drawPeerLists(t *rapid.T, name string) (list []any) {
	var nids []any
	for k := 1; k < 4; k++ {
		nets := []string{"tcp", "tcp1", "o2ib"}
		nids = append(nids, fmt.Sprintf("10.77.0.%d@%s", 20+k, nets[k%2]), fmt.Sprintf("10.80.%d.0@%s", k, nets[(k%2+1)%3]))
	}
	nids = rapid.Permutation(nids).Draw(t, name+" listed")
	for k := range rapid.IntRange(0, 3).Draw(t, name+" lists") {
		n := rapid.IntRange(1, 3).Draw(t, fmt.Sprintf("%s length of list %d", name, k))
		list, nids = append(list, map[string]any{"nids": nids[:n]}), nids[n-maybeOne(t, name+" overlap"):]
	}
	return list
}

func maybeOne(t *rapid.T, what string) int { return rapid.IntRange(0, 1).Draw(t, what) }

// drawAround draws the settings of lnetd itself in the section "lnetd".
func drawAround(t *rapid.T, name string, out map[string]any) {
	values := map[string][]any{
		"control_socket": {"/run/a.sock", "/run/b.sock"},
		"log_format":     {"auto", "json"},
		"log_level":      {"debug", "info", "warn"},
		"metrics":        {map[string]any{"peers": 10}, map[string]any{"peers": 20}},
		"metrics_addr":   {"none", "127.0.0.1:9100"},
		"selftest":       {map[string]any{"enabled": false}, map[string]any{"enabled": true}},
		"transport": {
			map[string]any{"enabled": true}, map[string]any{"enabled": false},
			map[string]any{"rules": []any{map[string]any{"name": "none", "users": []any{65534}}}},
		},
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if maybe(t, name+" "+key) {
			out[key] = rapid.SampledFrom(values[key]).Draw(t, name+" value of "+key)
		}
	}
}

// drawLnetd draws the section "lnetd".
func drawLnetd(t *rapid.T, name string, drivers Drivers) map[string]any {
	out := map[string]any{}
	for k := range drivers {
		d := &drivers[k]
		if !maybe(t, name+" "+d.Section) {
			continue
		}
		below := drawTunables(t, name+" "+d.Section, d.Tunables, func(o *lnd.Tunable) string { return o.Parameter })
		if _, err := config.Parse("f", []byte(document{"lnetd": map[string]any{d.Section: below}}.text(t)), drivers.Options()); err == nil {
			out[d.Section] = below // the options are compatible
		}
	}
	if maybe(t, name+" port") {
		out["port"] = rapid.IntRange(980, 990).Draw(t, name+" port's number")
	}
	bounds := map[string][2]int{
		"alive_router_check_interval": {0, 90}, "router_ping_timeout": {1, 90}, "avoid_asym_router_failure": {0, 1},
		"auto_down": {0, 1}, "peer_nis_max": {16, 99999}, "peer_buffer_credits": {0, 99},
	}
	for _, key := range slices.Sorted(maps.Keys(bounds)) {
		v := bounds[key]
		if maybe(t, name+" "+key) {
			out[key] = rapid.IntRange(v[0], v[1]).Draw(t, name+" value of "+key)
		}
	}
	if maybe(t, name+" discovery") {
		out["discovery"] = pick(t, name+" mode", "on", "off", "verify")
	}
	if maybe(t, name+" forwarding") {
		out["forwarding"] = pick(t, name+" forwards", "enabled", "disabled")
	}
	drawAround(t, name, out)
	if maybe(t, name+" selection") {
		out["selection"] = []any{map[string]any{"id": rapid.IntRange(0, 3).Draw(t, name+" id"), "type": "net", "net": "tcp*", "priority": 0}}
	}
	return out
}

// backup returns "export --backup" of a node as YAML.
func backup(t *testing.T, r *nodeRun) string {
	t.Helper()
	c := r.configuration(t)
	d := document{"global": map[string]any{}}
	for name, v := range c.Globals.Values {
		d["global"].(map[string]any)[name] = v
	}
	var nets, routes, peers, rules []any
	for _, n := range c.Nets {
		var nis []any
		for k := range n.NIs {
			nis = append(nis, backupNI(&n.NIs[k]))
		}
		nets = append(nets, map[string]any{"net type": n.Net.String(), "local NI(s)": nis})
	}
	for _, o := range c.Routes {
		hops := int(o.Hops)
		if hops == 0 {
			hops = -1
		}
		routes = append(routes, map[string]any{"net": o.Net.String(), "gateway": o.Gateway.String(), "hop": hops, "priority": o.Priority})
	}
	list := r.peers(t)
	slices.SortFunc(list, func(a, b api.Peer) int { return a.Primary.Compare(b.Primary) })
	for _, p := range list {
		var nids []any
		slices.SortFunc(p.NIs, func(a, b api.PeerNI) int { return a.NID.Compare(b.NID) })
		for _, ni := range p.NIs {
			nids = append(nids, map[string]any{"nid": ni.NID.String()})
		}
		known := p.Gateway || discovery.State(p.State).Has(discovery.Configured) // others come from traffic
		if known && !p.Primary.IsLoopback() {
			peers = append(peers, map[string]any{"primary nid": p.Primary.String(), "Multi-Rail": p.MultiRail, "peer ni": nids})
		}
	}
	for k, u := range c.UDSP {
		rule := map[string]any{"idx": k}
		for key, p := range map[string]string{"src": u.Src.String(), "dst": u.Dst.String(), "rte": u.Rte.String()} {
			if p != "" {
				rule[key] = p
			}
		}
		if u.Priority != nil {
			rule["action"] = map[string]any{"priority": *u.Priority}
		}
		rules = append(rules, rule)
	}
	if c.Routing.Ever {
		d["routing"] = map[string]any{"enable": int(c.Routing.State)}
	}
	if len(c.Routing.CPTs) > 0 {
		b := c.Routing.Buffers()
		d["buffers"] = map[string]any{"tiny": b.Tiny, "small": b.Small, "large": b.Large}
	}
	lnetd := maps.Clone(c.Lnetd)
	var selection []any
	for _, o := range c.Selection {
		selection = append(selection, map[string]any{"id": *o.ID, "type": o.Type, "net": "tcp*", "priority": o.Priority})
	}
	for key, list := range map[string][]any{"net": nets, "route": routes, "peer": peers, "udsp": rules} {
		if list != nil {
			d[key] = list
		}
	}
	if selection != nil {
		lnetd["selection"] = selection
	}
	d["lnetd"] = lnetd
	return d.text(t)
}

func backupNI(ni *api.NI) map[string]any {
	tunables := map[string]any{}
	for _, o := range ni.LND {
		if o.Name != "timeout" {
			tunables[o.Name] = o.Value
		}
	}
	return map[string]any{
		"interfaces": ni.Interfaces, "CPT": ni.CPT, "lnd tunables": tunables,
		"tunables": map[string]any{
			"peer_timeout": ni.Tunables.PeerTimeout, "peer_credits": ni.Tunables.PeerCredits,
			"peer_buffer_credits": ni.Tunables.PeerBufferCredits, "credits": ni.Tunables.Credits,
		},
	}
}

// Documents have the described effect on new and on running nodes. A document's plan is empty
// exactly if the difference is, and both are empty after it was applied. A new node then equals
// one that had another configuration before. A backup restores the same state on a new node.
// Importing a document twice changes nothing the second time.
//
// lnetctl 8 (3)
func TestRandomDocuments(t *testing.T) {
	network := host(lo, device("eth0", "10.77.0.11/24"), device("eth1", "10.78.0.11/24"))
	noRDMA := func() (verbs.Provider, error) { return nil, errors.New("no RDMA") }
	rdma := &o2ib{
		host: network, open: noRDMA, privileged: func() bool { return true }, rdma: hostnet.RDMAAt(t.TempDir()),
	}
	drivers := Drivers{TCP(network), rdma.driver()}
	draw := rapid.Custom(func(t *rapid.T) [2]string {
		before := drawDocument(t, "a", drivers)
		if lnetd, ok := before["lnetd"].(map[string]any); ok {
			delete(lnetd, "port") // a document that omits it leaves it
		}
		return [2]string{before.text(t), drawDocument(t, "b", drivers).text(t)}
	})
	for seed := *firstDocument; seed < *firstDocument+*documents; seed++ {
		texts := draw.Example(seed)
		if !t.Run(strconv.Itoa(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testDocuments(t, drivers, texts[0], texts[1]) })
		}) {
			t.Fatalf("the node was\n%s\nthe document is\n%s", texts[0], texts[1])
		}
	}
}

func testDocuments(t *testing.T, drivers Drivers, before, text string) {
	start := func(text string) *nodeRun {
		t.Helper()
		c, err := config.Parse("start.yaml", []byte(text), drivers.Options())
		if err != nil {
			t.Fatal(err)
		}
		r := startNodeWith(t, c, drivers).ready(t)
		r.daemon.SetLevel(&slog.LevelVar{})
		return r
	}
	running := start(before)
	running.settles(t, api.ModeReplace, before) // the document that it was started with
	running.consistent(t, api.ModeReplace, text)
	done, err := running.takes(t, api.ModeReplace, text)
	later := slices.DeleteFunc(done.Restart, func(name string) bool {
		return slices.ContainsFunc(parts, func(p part) bool { return p.name == name })
	})
	if err != nil || len(later) > 0 {
		t.Fatal(err, later)
	}
	running.settles(t, api.ModeReplace, text)
	running.settles(t, api.ModeAdd, text)
	fresh := start(text)
	fresh.settles(t, api.ModeReplace, text)
	if diff := cmp.Diff(withoutRuleID(backup(t, fresh)), withoutRuleID(backup(t, running))); diff != "" {
		t.Errorf("(-fresh +applied): %s", diff)
	}

	saved := backup(t, running)
	running.settles(t, api.ModeReplace, saved)
	empty := start("{}")
	for _, configured := range []bool{false, true} {
		empty.setLNet(t, api.LNet{Configured: configured})
	}
	empty.consistent(t, api.ModeAdd, saved)
	if _, err := empty.takes(t, api.ModeAdd, saved); err != nil {
		t.Fatalf("%v\n%s", err, saved)
	}
	empty.settles(t, api.ModeAdd, saved)
	same(t, "(-node +node of its backup)", running, empty)

	added := start(before)
	if _, err := added.tries(t, api.ModeAdd, text, true); err != nil {
		return // it conflicts with the node's state
	}
	added.consistent(t, api.ModeAdd, text)
	if _, err := added.takes(t, api.ModeAdd, text); err != nil {
		t.Fatal(err)
	}
	added.settles(t, api.ModeAdd, text)
}

var ruleID = regexp.MustCompile(`(selection:\s+- id: )\d+`)

// withoutRuleID returns a backup without the ID of its selection rule. A rule that the node has
// already keeps its ID (decisions 170).
func withoutRuleID(text string) string { return ruleID.ReplaceAllString(text, "${1}N") }

// same fails if two nodes differ in their configuration or their peers.
func same(t *testing.T, what string, a, b *nodeRun) {
	t.Helper()
	if diff := cmp.Diff(backup(t, a), backup(t, b)); diff != "" {
		t.Errorf("%s: %s", what, diff)
	}
}

func asJSON(t *testing.T, c api.Configuration) string {
	t.Helper()
	b, err := json.MarshalIndent(c, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// tries changes the node with a document, or only plans the change.
func (r *nodeRun) tries(t *testing.T, mode api.Mode, text string, dry bool) (done api.ConfigurationChanged, err error) {
	t.Helper()
	request := api.ConfigurationChange{Document: api.Document{Name: "d.yaml", Text: text}, Mode: mode, Wait: true, Dry: dry}
	if dry {
		return r.ChangeConfiguration(t.Context(), request)
	}
	if busy := r.InTurn(t.Context(), func() { done, err = r.ChangeConfiguration(t.Context(), request) }); busy != nil {
		t.Fatal(busy)
	}
	return done, err
}

func (r *nodeRun) takes(t *testing.T, mode api.Mode, text string) (api.ConfigurationChanged, error) {
	t.Helper()
	return r.tries(t, mode, text, false)
}

// consistent fails unless a plan has commands exactly if there is a difference.
func (r *nodeRun) consistent(t *testing.T, mode api.Mode, text string) api.ConfigurationChanged {
	t.Helper()
	done, err := r.tries(t, mode, text, true)
	if err != nil {
		t.Fatal(err)
	}
	diff := cmp.Diff(asJSON(t, done.Before), asJSON(t, done.After))
	if (len(done.Commands) == 0) != (diff == "") {
		t.Errorf("%s: the plan is %q, the difference %s", mode, done.Commands, diff)
	}
	return done
}

// settles fails if a document would change something.
func (r *nodeRun) settles(t *testing.T, mode api.Mode, text string) {
	t.Helper()
	if done := r.consistent(t, mode, text); len(done.Commands) > 0 {
		t.Errorf("%s of what there is: %q\n%s", mode, done.Commands, cmp.Diff(asJSON(t, done.Before), asJSON(t, done.After)))
	}
}
