package main

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
	"github.com/lnetd/lnetd/internal/lnetd/rates"
	"github.com/lnetd/lnetd/internal/lnetd/spelling"
)

// topInterval is the default interval of "top".
const topInterval = 2 * time.Second

// topLines is the number of objects of one kind that "top" prints if its output is not a terminal.
const topLines = 20

// sortKeys are the orders in which "top" can print objects. In full screen, the first letter selects one.
var sortKeys = []string{"messages", countSent, countReceived, countDropped, "bytes", "name"}

func (p *program) topCommand() *cobra.Command {
	var o repeat
	sort := sortKeys[0]
	c := leaf(manual{
		use:   "top [--sort KEY] [--interval SECONDS] [--count N]",
		short: "show which NIs, peers and programs have how much traffic now",
		long: `Prints messages and bytes per second of the node, and of the NIs, the peers' NIDs, the
clients and the proxies with the most traffic. For clients, it counts completed operations
as messages, and failed ones as dropped. Peers have no counters of bytes.

On a terminal the output fills the screen. The keys m, s, r, d, b and n sort by messages,
sent, received and dropped messages, bytes, and names; q ends the command. Otherwise each
interval is printed below the one before, with at most 20 objects of each kind.`,
		example: `lnetdctl top --count 2
lnetdctl top --sort bytes --interval 5 --count 2 --json`,
		exits: `0    success, or q was pressed
1    help was requested
130  ended by SIGINT; other signals give 128 plus their number
234  an option is invalid (-22)
255  lnetd does not answer (-1); in full screen, the command waits for lnetd instead`,
	}, func(ctx context.Context) error {
		interval, count, err := o.parse(topInterval)
		if err != nil {
			return err
		}
		if !slices.Contains(sortKeys, sort) {
			return badSort(sort)
		}
		t := &top{sort: sort}
		if p.fullScreen() {
			return p.topScreen(ctx, t, interval, count)
		}
		return p.topLines(ctx, t, interval, count)
	})
	c.Flags().StringVarP(&sort, "sort", "s", sort, "sort by `KEY`: "+strings.Join(sortKeys, ", "))
	o.add(c, "read the counters every `SECONDS`, 0.1 to 3600 (default 2)")
	return c
}

func badSort(key string) error {
	err := fmt.Errorf("option '--sort': '%s' is not one of %s", key, strings.Join(sortKeys, ", "))
	if like := spelling.Nearest(key, sortKeys); like != "" {
		err = fmt.Errorf("%w; %s", err, spelling.DidYouMean(like))
	}
	return err
}

// topLines prints an interval below the other.
func (p *program) topLines(ctx context.Context, t *top, interval time.Duration, count int64) error {
	c := p.client()
	defer c.Close()
	for k := int64(0); count == 0 || k <= count; k++ {
		if k > 0 {
			if err := p.wait(ctx, interval); err != nil {
				return err
			}
		}
		v, err := t.sample(ctx, c)
		switch {
		case err != nil:
			return p.refused(errorForm{kind: ownText}, err)
		case k == 0:
		case p.json:
			err = p.printJSONLine(v.json(t.sort))
		default:
			_, err = fmt.Fprintln(p.stdout, strings.Join(v.lines(t.sort, topLines), "\n")+"\n")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// top reads samples of the counters of a node.
type top struct {
	meter rates.Meter
	sort  string
}

// topView is what "top" shows of an interval.
type topView struct {
	at      time.Time
	seconds float64
	version api.Version
	down    bool // LNet is not configured
	node    []rated
	kinds   []topKind
}

// topKind are the objects of one kind with the most traffic.
type topKind struct {
	key, heading string
	names        []string
	total        int // number of objects of the kind
	// best are the first objects by each of sortKeys, in order.
	best [][]rated
}

// topMost is the maximum number of objects of one kind that are held for each order. No screen is higher.
const topMost = 200

// sample reads the counters of lnetd. The rates are those since the last call.
func (t *top) sample(ctx context.Context, c *client.Client) (*topView, error) {
	version, err := c.Version(ctx)
	if err != nil {
		return nil, err
	}
	uptime := time.Duration(version.Uptime * float64(time.Second))
	t.meter.Begin(version.Started, uptime)
	v := &topView{at: version.Started.Add(uptime), seconds: t.meter.Seconds(), version: version}
	v.node, err = nodeTraffic.rates(ctx, c, &t.meter)
	if v.down = err != nil && api.FaultOf(err).Code == api.CodeNetworkDown; v.down {
		err = nil
	}
	for _, kind := range topKinds {
		if err != nil {
			return nil, err
		}
		if v.down && kind.key != topPrograms {
			continue
		}
		one := topKind{key: kind.key, heading: kind.heading, names: kind.names, best: make([][]rated, len(sortKeys))}
		err = kind.each(ctx, c, &t.meter, one.add)
		v.kinds = append(v.kinds, one)
	}
	return v, err
}

// Keys of topKinds.
const (
	topNIs      = "nis"
	topPeers    = "peers"
	topPrograms = "programs"
)

// topKinds are the kinds of objects that "top" shows.
var topKinds = []struct {
	key string
	counted
}{
	{topNIs, niCounters(0, func(ctx context.Context, c *client.Client) (api.Nets, error) { return c.NetsAndWaiting(ctx, "") })},
	{topPeers, peerCounters(0, func(ctx context.Context, c *client.Client, detail int) iter.Seq2[api.Peer, error] {
		return c.EachPeer(ctx, "", detail)
	})},
	{topPrograms, clientCounters(0)},
}

// nodeTraffic are the counters of the whole node.
var nodeTraffic = nodeCounters(0, func(name string) bool {
	return slices.Contains([]string{
		"send_count", "recv_count", "route_count", "drop_count", "resend_count", "send_length", "recv_length", "route_length", "drop_length",
	}, name)
})

// add adds an object to those of the kind.
func (k *topKind) add(r rated) {
	k.total++
	for i, key := range sortKeys {
		best := k.best[i]
		at, _ := slices.BinarySearchFunc(best, r, func(a, b rated) int { return k.compare(key, a, b) })
		if at < topMost {
			best = slices.Insert(best, at, r)
			k.best[i] = best[:min(len(best), topMost)]
		}
	}
}

// compare returns a negative number if a comes before b in the order of key.
func (k *topKind) compare(key string, a, b rated) int {
	if key != "name" {
		if x, y := k.amount(key, a), k.amount(key, b); x != y {
			if x > y {
				return -1
			}
			return 1
		}
	}
	return strings.Compare(a.name, b.name)
}

// amount returns the rate by which r is sorted.
func (k *topKind) amount(key string, r rated) (sum float64) {
	want := []string{key}
	switch key {
	case "messages":
		want = traffic[:2]
	case "bytes":
		want = traffic[3:]
		if len(k.names) < len(traffic) { // peers have none
			want = traffic[:2]
		}
	}
	for i, name := range k.names {
		if slices.Contains(want, name) {
			sum += r.rates[i]
		}
	}
	return sum
}

// order returns the objects in the order of a key of sortKeys, at most n.
func (k *topKind) order(key string, n int) []rated {
	best := k.best[slices.Index(sortKeys, key)]
	return best[:min(n, len(best))]
}

// topJSON is what "top --json" prints, on one line for each interval.
type topJSON struct {
	Time    time.Time          `json:"time"`
	Seconds float64            `json:"seconds"`
	Node    map[string]float64 `json:"node_per_second"`
	// Kinds has the objects by kind: nis, peers and programs.
	Kinds map[string][]objectJSON `json:"objects"`
}

func (v *topView) json(sort string) topJSON {
	out := topJSON{v.at, v.seconds, map[string]float64{}, map[string][]objectJSON{}}
	for _, r := range v.node {
		out.Node[r.name] = r.rates[0]
	}
	for k := range v.kinds {
		kind := &v.kinds[k]
		out.Kinds[kind.key] = objectsJSON(kind.names, kind.order(sort, topLines))
	}
	return out
}

// lines returns the view as text, with at most most objects of each kind.
func (v *topView) lines(sort string, most int) []string {
	lines := v.head(sort)
	for k := range v.kinds {
		lines = append(lines, "")
		lines = append(lines, v.kinds[k].lines(sort, most)...)
	}
	return lines
}

// head returns the lines about the whole node.
func (v *topView) head(sort string) []string {
	of := func(name string) string {
		for _, r := range v.node {
			if r.name == name {
				return perSecond(r.rates[0])
			}
		}
		return "-"
	}
	lines := []string{fmt.Sprintf("lnetd %s, up %s; %s, in %.1f s, sorted by %s", v.version.Version,
		roughly(time.Duration(v.version.Uptime*float64(time.Second))), v.at.Local().Format(time.TimeOnly), v.seconds, sort)}
	if v.down {
		return append(lines, "LNet is not configured")
	}
	return append(lines,
		fmt.Sprintf("messages/s: %s sent, %s received, %s routed, %s dropped, %s resent", of("send_count"), of("recv_count"), of("route_count"), of("drop_count"), of("resend_count")),
		fmt.Sprintf("bytes/s:    %s sent, %s received, %s routed, %s dropped", of("send_length"), of("recv_length"), of("route_length"), of("drop_length")))
}

// lines returns the objects of the kind as a table, and how many are left out.
func (k *topKind) lines(sort string, most int) []string {
	rows := k.order(sort, most)
	columns := make([]int, len(k.names))
	for i := range columns {
		columns[i] = i
	}
	var b strings.Builder
	rateTable(k.heading, k.names, columns, rows).write(&b, "")
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if more := k.total - len(rows); more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return lines
}
