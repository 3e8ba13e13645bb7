package metrics

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/lnetd/lnetd/internal/lnetd/clients"
	"github.com/lnetd/lnetd/internal/lnetd/proxies"
	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/hostnet"
	"github.com/lnetd/lnetd/lnd/o2iblnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/fabric"
	"github.com/lnetd/lnetd/lnd/simlnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

var update = flag.Bool("update", false, "write docs/metrics.md")

const pagePath = "../../../docs/metrics.md"

// everything returns a Source that has values for everything.
func everything(t testing.TB) *fakeSource {
	t.Helper()
	tcp := lnet.MakeNet(lnet.TypeTCP, 0)
	nid := lnet.NIDFromIP(tcp, netip.AddrFrom4([4]byte{10, 0, 0, 1}))
	answered := node.Latency{Samples: 1, Sum: time.Second}
	ni := node.PeerNIInfo{
		NID: nid, Aliveness: node.AliveUp, Credits: node.CreditInfo{Max: 8}, Traffic: node.Traffic{GetRTT: answered, PutAck: answered},
	}
	return &fakeSource{
		nis:     []node.NIInfo{tcpNI(t), rdmaNI(t)},
		peers:   []node.PeerInfo{{Primary: nid, NIs: []node.PeerNIInfo{ni}}},
		routes:  []node.RouteInfo{{Net: lnet.MakeNet(lnet.TypeTCP, 1), Gateway: nid}},
		routing: node.RoutingInfo{Ever: true},
		clients: []clients.Total{{}},
		proxies: []proxies.Status{{}},
		waiting: []WaitingNI{{Net: tcp, NI: "tcp(eth0)"}},
		ports:   []hostnet.RDMAPort{{Device: "rxe0", Port: "1", Counters: map[string]uint64{"rcvd_pkts": 7}}},
		config:  Configuration{SHA256: "00", Loaded: time.Unix(1, 0)},
	}
}

// tcpNI returns the state of an NI over TCP.
func tcpNI(t testing.TB) node.NIInfo {
	t.Helper()
	f := simlnd.New(simlnd.Config{})
	t.Cleanup(f.Close)
	d, err := simlnd.NewDriver(f.Host("host", "10.0.0.1"), socklnd.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	return realNI(t, lnet.TypeTCP, d)
}

// rdmaNI returns the state of an NI over RDMA.
func rdmaNI(t testing.TB) node.NIInfo {
	t.Helper()
	f := fabric.New(fabric.Config{})
	t.Cleanup(f.Close)
	c := o2iblnd.DefaultConfig()
	host := f.Host("host", "10.0.0.1")
	c.Provider, c.Host = host.Open(), host
	d, err := o2iblnd.New(c)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Provider.Close() }()
	return realNI(t, lnet.TypeO2IB, d)
}

// driver is a driver that can be closed.
type driver interface {
	lnd.Driver
	io.Closer
}

// realNI returns the state of an NI over a driver, which is then closed.
func realNI(t testing.TB, typ lnet.NetType, d driver) node.NIInfo {
	t.Helper()
	n, err := node.New(node.Config{})
	if err != nil {
		t.Fatal(err)
	}
	nid := lnet.NIDFromIP(lnet.MakeNet(typ, 0), netip.AddrFrom4([4]byte{10, 0, 0, 1}))
	if _, err := n.AddNI(t.Context(), d, lnd.Config{Net: nid.Net(), NID: nid}); err != nil {
		t.Fatal(err)
	}
	info := n.NIs()[1]
	if err := errors.Join(n.Close(t.Context()), d.Close()); err != nil {
		t.Error(err)
	}
	return info
}

// all returns all families, including those of exporters of Lustre.
func all(t testing.TB) *gatherer {
	return newGatherer(everything(t), Options{Version: "v1", LustreCompat: true}, func() uint64 { return 0 })
}

// The names, types, labels and helps of all families, and values of labels that are always the
// same, are those in docs/metrics.md, because a change would break dashboards and alerts. With
// -update the page is written.
func TestNames(t *testing.T) {
	want := wantedPage(t)
	if *update {
		if err := os.WriteFile(pagePath, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(pagePath)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/metrics.md is out of date; make metrics-page updates it (-want +got):\n%s", diff)
	}
}

// Every family of the code is on the page.
func TestAllFamiliesAreShown(t *testing.T) {
	shown := map[string]bool{}
	for _, f := range all(t).own(newPage()) {
		shown[f.GetName()] = true
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	made := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			of, ok := call.Fun.(*ast.Ident)
			if !ok || !strings.HasSuffix(of.Name, "Family") || of.Name == "newFamily" {
				return true
			}
			literal, ok := call.Args[0].(*ast.BasicLit)
			if !ok {
				t.Errorf("%s: a family without a name that can be read here", name)
				return true
			}
			if family, err := strconv.Unquote(literal.Value); err != nil || !shown[family] {
				t.Errorf("%s: %s is never shown", name, literal.Value)
			}
			made++
			return true
		})
	}
	if made < 60 {
		t.Errorf("%d families were found", made)
	}
}

// The gathered data is consistent: no metric occurs twice, families are consistent, and names
// follow the rules of Prometheus.
func TestNamesFollowTheRules(t *testing.T) {
	g := all(t)
	if _, err := (prometheus.Gatherers{g}).Gather(); err != nil {
		t.Error(err)
	}
	problems, err := testutil.GatherAndLint(g)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	for _, f := range g.own(newPage()) {
		if h := f.GetHelp(); !strings.HasSuffix(h, ".") {
			t.Errorf("%s: help %q is not a sentence", f.GetName(), h)
		}
		for _, m := range f.GetMetric() {
			if !slices.IsSortedFunc(m.GetLabel(), func(a, b *dto.LabelPair) int { return strings.Compare(a.GetName(), b.GetName()) }) {
				t.Errorf("%s: labels %v are not sorted", f.GetName(), m.GetLabel())
			}
		}
	}
}

// promtool accepts the output.
func TestPromtool(t *testing.T) {
	testenv.NeedCommand(t, "promtool", "prometheus")
	families, err := all(t).Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.CommandContext(t.Context(), "promtool", "check", "metrics")
	c.Stdin = &text
	if out, err := c.CombinedOutput(); err != nil || len(bytes.TrimSpace(out)) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

// groups are the parts of the page. A family belongs to the last group whose prefix it has.
var groups = []struct{ prefix, title, text string }{
	{"lnet_", "The node", ""},
	{"lnet_discovery_", "Discovery", ""},
	{"lnet_ni_", "NIs", "NIs are known by their net, NID and device; `0@lo` has no device, credits or driver."},
	{"lnet_interface", "NIs that wait", ""},
	{"lnet_lnd_", "Network drivers", "These are the counters of the drivers for TCP and RDMA. A driver shows those that it has."},
	{"lnet_peer", "Peers", "The oldest 1,000 peers have separate series, up to 2,000 NIDs in total, so unknown hosts cannot " +
		"create more series. A peer with more than 128 NIDs has none. `lnet_peers_left_out` counts the peers without series. " +
		"The counters have a common series for all other NIDs, also for those of peers that were removed: `nid` and `primary` are `other`. " +
		"When a NID gets separate series, its earlier messages remain in the common series, which does not decrease. " +
		"Prometheus takes the first value of a new series as its start, and these messages are in the common one too. " +
		"So add up increases or rates, not values: `sum(increase(lnet_peer_ni_messages_total[1h]))` includes each message once. " +
		"`lnetdctl stats reset` sets the common series to the counts of its NIDs since then, which Prometheus treats as a restart; failures are not reset. " +
		"A message that ends after its peer was removed is in no series."},
	{"lnet_rout", "Routes and routers", "The first 1,000 routes have separate series. The routes to one net are shown all or not at all."},
	{"lnet_client", "Clients of transfer machines", "Clients are grouped by the rule of the configuration that applies to them."},
	{"lnet_selftest_", "LNet selftest", "Counters begin at 0 when selftest is enabled."},
	{"lnetd_", "lnetd", ""},
	{"lustre_", "Names of exporters of Lustre", "With `--metrics.lustre-compat`, lnetd also shows its values under the names that exporters of Lustre use for LNet, " +
		"so existing dashboards work. `component` and `target` are always `lnet`. Names that only apply to kernels, such as `lustre_console_max_delay_centiseconds`, are left out."},
}

// fixed are labels whose values are always the same.
var fixed = []string{"class", "direction", "exchange", "health", "kind", "of", "operation", "outcome", "pool", "queue", "reason", "result", "role", "state", "test", "type", "woken"}

const preface = `# Metrics

lnetd shows these metrics to Prometheus on ` + "`/metrics`" + `, if it is started with an address for them. Names, types and
labels are an interface: changes are announced in the release notes. A test generates this page (` + "`make metrics-page`" + `).

Counters end in ` + "`_total`" + ` and start at 0 with lnetd. ` + "`lnetdctl stats reset`" + ` sets the counters of messages, latencies
and drops to 0, which Prometheus treats as a restart. Times are in seconds, sizes in bytes. Scrapes in the protobuf format
(` + "`scrape_native_histograms: true`" + ` or ` + "`--enable-feature=native-histograms`" + ` in Prometheus) get native histograms and
classic buckets; scrapes in text get the classic buckets. lnetd also shows ` + "`process_*`" + ` and ` + "`go_*`" + `, like all programs
with Prometheus' library for Go.
`

// wantedPage returns the expected docs/metrics.md.
func wantedPage(t *testing.T) string {
	t.Helper()
	tables := make([]strings.Builder, len(groups))
	for _, f := range all(t).own(newPage()) {
		at := -1
		for k, g := range groups {
			if strings.HasPrefix(f.GetName(), g.prefix) {
				at = k
			}
		}
		if at < 0 {
			t.Fatalf("%s belongs to no group", f.GetName())
		}
		kind := strings.ToLower(f.GetType().String())
		fmt.Fprintf(&tables[at], "| `%s` | %s | %s | %s |\n", f.GetName(), kind, labelsOf(f), f.GetHelp())
	}
	var b strings.Builder
	b.WriteString(preface)
	for k, g := range groups {
		fmt.Fprintf(&b, "\n## %s\n\n", g.title)
		if g.text != "" {
			fmt.Fprintf(&b, "%s\n\n", g.text)
		}
		b.WriteString("| name | type | labels | |\n|---|---|---|---|\n" + tables[k].String())
	}
	return b.String()
}

// labelsOf returns a family's labels, with their values if these are always the same.
func labelsOf(f *dto.MetricFamily) string {
	names, values := []string{}, map[string][]string{}
	for _, m := range f.GetMetric() {
		for _, l := range m.GetLabel() {
			name, value := l.GetName(), l.GetValue()
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
			if slices.Contains(fixed, name) && !slices.Contains(values[name], value) {
				values[name] = append(values[name], value)
			}
		}
	}
	var list []string
	for _, name := range names {
		s := "`" + name + "`"
		if v := values[name]; v != nil {
			s += ": " + strings.Join(v, " ")
		}
		list = append(list, s)
	}
	return strings.Join(list, "; ")
}
