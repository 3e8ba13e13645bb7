package hosting

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnet"
)

// A node is changed under full traffic, a thousand times in the long form, at random: NIs by
// command, documents that add, remove or replace, and SIGHUP with another file. After each change
// the node is in the expected state, and at the end in its first one. No message over an NI that
// did not change fails, is lost or is corrupted, and nothing is left behind.
//
// lnetctl 4.2 (2), 4.3 (1), 7 (1), 7 (4)
func TestReconfigure(t *testing.T) {
	changes := 60
	if *long {
		changes = 1000
	}
	x := newReconfiguring(t)
	x.run(changes / 5) // to create what is created only once
	x.become(world{}, "apply")
	before := pairOfFigures{x.near.figures(), x.far.figures()}
	x.run(changes - changes/5)
	x.become(world{}, "apply")
	x.traffic.judge(t)
	x.near.wantUnchanged(before.near)
	x.far.wantUnchanged(before.far)
	t.Logf("%d changes: %v", changes, x.done)
	x.near.wantHealthy()
	x.far.wantHealthy()
}

// world is what a campaign has configured in addition to the NI that stays. Its zero value means no
// additions.
type world struct {
	nets   [6]bool // tcp1 and so on, each with one NI
	routes [4]bool // to tcp51 and so on
	peers  [4]bool
	rule   bool // a user policy
	retry  int  // 0: the default
}

// defaultRetry is retry_count if it is not configured.
const defaultRetry = 2

// random returns a random world.
func random(r *rand.Rand) (w world) {
	for _, list := range [][]bool{w.nets[:], w.routes[:], w.peers[:]} {
		for k := range list {
			list[k] = r.IntN(2) == 0
		}
	}
	w.rule = r.IntN(2) == 0
	w.retry = r.IntN(5)
	return w
}

// each calls do for each pair of corresponding places of both worlds.
func (w *world) each(o *world, do func(mine *bool, theirs bool)) {
	for k := range w.nets {
		do(&w.nets[k], o.nets[k])
	}
	for k := range w.routes {
		do(&w.routes[k], o.routes[k])
		do(&w.peers[k], o.peers[k])
	}
}

// reconfiguring has a node that is changed, and one that is not.
type reconfiguring struct {
	t         *testing.T
	near, far *daemon
	traffic   *traffic
	rand      *rand.Rand
	is        world
	done      map[string]int
}

func newReconfiguring(t *testing.T) *reconfiguring {
	port := freePort(t, address(1), address(2))
	const extra = "global: {transaction_timeout: 60}\n"
	x := &reconfiguring{
		t: t, rand: rand.New(rand.NewPCG(1, 14)), done: map[string]int{},
		near: launch(t, settings{host: 1, listen: port, extra: extra, program: &racy}),
		far:  launch(t, settings{host: 2, listen: port, extra: extra, program: &racy}),
	}
	x.traffic = newTraffic(t, x.near, x.far)
	return x
}

// run makes n changes.
func (x *reconfiguring) run(n int) {
	x.t.Helper()
	for range n {
		switch w := random(x.rand); x.rand.IntN(6) {
		case 0, 1:
			x.toggle(x.rand.IntN(len(x.is.nets)))
		case 2:
			x.add(w)
		case 3:
			x.take(w)
		case 4:
			x.become(w, "apply")
		case 5:
			x.become(w, "SIGHUP")
		}
		if x.t.Failed() {
			x.t.FailNow()
		}
	}
}

// toggle adds or removes an NI by command.
func (x *reconfiguring) toggle(k int) {
	x.t.Helper()
	x.is.nets[k] = !x.is.nets[k]
	var err error
	if x.is.nets[k] {
		_, err = x.near.control.AddNet(x.t.Context(), api.NetAddition{NID: x.nid(k)})
	} else {
		err = x.near.control.DeleteNet(x.t.Context(), api.NetDeletion{Net: x.nid(k).Net()})
	}
	x.check("net", err)
}

// add imports a document that contains all of w.
func (x *reconfiguring) add(w world) {
	x.t.Helper()
	x.is.each(&w, func(mine *bool, theirs bool) { *mine = *mine || theirs })
	x.is.rule = x.is.rule || w.rule
	if w.retry > 0 {
		x.is.retry = w.retry
	}
	x.check("import", x.change(x.document(&w, ""), api.ModeAdd))
}

// take imports a document that contains all of w with --del. User policies are deleted by their
// index, and parameters of that kind do not change (lnetctl 7.4).
func (x *reconfiguring) take(w world) {
	x.t.Helper()
	// Objects that do not exist cannot be deleted.
	w.each(&x.is, func(mine *bool, theirs bool) { *mine = *mine && theirs })
	w.rule, w.retry = w.rule && x.is.rule, 0
	x.is.each(&w, func(mine *bool, theirs bool) { *mine = *mine && !theirs })
	x.is.rule = x.is.rule && !w.rule
	x.check("import --del", x.change(x.document(&w, ""), api.ModeDelete))
}

// become changes the node to w, by a document that replaces everything, or by its file.
func (x *reconfiguring) become(w world, how string) {
	x.t.Helper()
	x.is = w
	text := x.document(&w, fmt.Sprintf("    - {net type: tcp, nid: %s}\n", x.near.nid))
	if w.retry == 0 {
		text += "global: {transaction_timeout: 60}\n"
	}
	if how != "SIGHUP" {
		x.check(how, x.change(text, api.ModeReplace))
		return
	}
	x.near.configure(text)
	const reloaded = "configuration reloaded"
	loads := strings.Count(x.near.log.String(), reloaded)
	if err := x.near.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		x.t.Fatal(err)
	}
	within(x.t, patience, "configuration reloaded", func() bool {
		return strings.Count(x.near.log.String(), reloaded) > loads
	})
	x.check(how, nil)
}

func (x *reconfiguring) change(text string, mode api.Mode) error {
	_, err := x.near.control.ChangeConfiguration(x.t.Context(), api.ConfigurationChange{
		Document: api.Document{Name: "document", Text: text}, Mode: mode,
	})
	var f *api.Fault
	if errors.As(err, &f) && len(f.Problems) > 0 {
		return fmt.Errorf("%w: %+v\n%s", err, f.Problems, text)
	}
	return err
}

// nid returns the NID of the k-th NI that is added and removed.
func (x *reconfiguring) nid(k int) lnet.NID {
	return parseNID(fmt.Sprintf("%s@tcp%d", address(10+k), k+1))
}

func (x *reconfiguring) peer(k int) lnet.NID { return parseNID(address(200+k) + "@tcp") }

// parseNID parses a valid NID.
func parseNID(s string) lnet.NID {
	nid, err := lnet.ParseNID(s)
	if err != nil {
		panic(err)
	}
	return nid
}

func remoteNet(k int) lnet.Net { return lnet.MakeNet(lnet.TypeTCP, uint16(51+k)) }

// document returns a world as a file, with more nets before its nets.
func (x *reconfiguring) document(w *world, nets string) string {
	var b strings.Builder
	section := func(name string, have []bool, before string, item func(k int) string) {
		text := before
		for k, has := range have {
			if has {
				text += "    - " + item(k) + "\n"
			}
		}
		if text != "" {
			fmt.Fprintf(&b, "%s:\n%s", name, text)
		}
	}
	section("net", w.nets[:], nets, func(k int) string {
		return fmt.Sprintf("{net type: %s, nid: %s}", x.nid(k).Net(), x.nid(k))
	})
	section("route", w.routes[:], "", func(k int) string {
		return fmt.Sprintf("{net: %s, gateway: %s, hop: 2}", remoteNet(k), x.far.nid)
	})
	section("peer", w.peers[:], "", func(k int) string {
		return fmt.Sprintf("{primary nid: %s, peer ni: [{nid: %[1]s}, {nid: %s@tcp70}]}", x.peer(k), address(200+k))
	})
	if w.rule {
		b.WriteString("udsp:\n    - {idx: 0, src: tcp, action: {priority: 1}}\n")
	}
	if w.retry > 0 {
		fmt.Fprintf(&b, "global: {retry_count: %d, transaction_timeout: 60}\n", w.retry)
	}
	return b.String()
}

// check fails the test if a change failed, or if the node is not in the expected state.
func (x *reconfiguring) check(how string, err error) {
	x.t.Helper()
	x.done[how]++
	if err != nil {
		x.t.Fatalf("change %v, %s: %v", x.done, how, err)
	}
	c, err := x.near.control.Configuration(x.t.Context())
	if err != nil {
		x.t.Fatal(err)
	}
	if got, want := x.told(&c), x.expected(); !slices.Equal(got, want) {
		x.t.Fatalf("change %v: after %s the node is\n%q, want\n%q", x.done, how, got, want)
	}
}

// told returns the configuration that the node reports, as a sorted list of words.
func (x *reconfiguring) told(c *api.Configuration) (words []string) {
	for _, n := range c.Nets {
		for _, ni := range n.NIs {
			if !ni.NID.IsLoopback() {
				words = append(words, "nid "+ni.NID.String())
			}
		}
	}
	for _, r := range c.Routes {
		words = append(words, fmt.Sprintf("route %s %s %d", r.Net, r.Gateway, r.Hops))
	}
	for _, p := range c.Peers {
		words = append(words, "peer "+p.Primary.String())
	}
	for _, r := range c.UDSP {
		words = append(words, "rule "+r.Src.String())
	}
	words = append(words, fmt.Sprint("retry ", c.Globals.Values["retry_count"]))
	slices.Sort(words)
	return words
}

// expected returns the expected result of told.
func (x *reconfiguring) expected() []string {
	words := map[string]bool{"nid " + x.near.nid: true}
	for k, has := range x.is.nets {
		words["nid "+x.nid(k).String()] = has
	}
	for k, has := range x.is.routes {
		words[fmt.Sprintf("route %s %s 2", remoteNet(k), x.far.nid)] = has
	}
	for k, has := range x.is.peers {
		words["peer "+x.peer(k).String()] = has
	}
	words["rule tcp"] = x.is.rule
	retry := x.is.retry
	if retry == 0 {
		retry = defaultRetry
	}
	words[fmt.Sprint("retry ", retry)] = true
	maps.DeleteFunc(words, func(_ string, has bool) bool { return !has })
	return slices.Sorted(maps.Keys(words))
}

// traffic is the traffic between two nodes during the changes: single round trips, and as many
// messages and as much bulk as possible, all over NIs that stay.
type traffic struct {
	echo, ping, server, worker *guest
	began                      time.Time
}

func newTraffic(t *testing.T, near, far *daemon) *traffic {
	x := &traffic{began: time.Now()}
	echoAt, serverAt := far.nid+":12345:34:1", far.nid+":12345:34:3"
	x.echo = enter(t, order{Role: "echo", Socket: far.socket, At: echoAt})
	x.server = enter(t, order{Role: "server", Socket: far.socket, At: serverAt})
	x.ping = enter(t, order{Role: "ping", Socket: near.socket, At: near.nid + ":12345:34:2", To: echoAt})
	x.worker = enter(t, order{
		Role: "worker", Socket: near.socket, At: near.nid + ":12345:34:4", To: serverAt, Seed: 1,
		File: testenv.SocketDir(t) + "/worker",
	})
	return x
}

// judge fails the test if there was no traffic or if any of it failed.
func (x *traffic) judge(t *testing.T) {
	t.Helper()
	var p pingReport
	var e echoReport
	var s serverReport
	x.ping.AskInto("report", "report", &p)
	x.echo.AskInto("report", "report", &e)
	x.server.AskInto("report", "report", &s)
	t.Logf("in %v: %v; %+v", time.Since(x.began).Round(time.Millisecond), &p, s)
	if p.N == 0 || p.Lost > 0 || p.Troubles > 0 || e.Troubles > 0 {
		t.Errorf("round trips: %v; echo %+v", &p, e)
	}
	if s.Messages == 0 || s.Troubles > 0 || s.Spoilt > 0 || s.Twice > 0 || s.BulkFailed > 0 || s.ReceiptsFailed > 0 {
		t.Errorf("messages and bulk: %+v", s)
	}
	for _, g := range []*guest{x.ping, x.worker, x.echo, x.server} {
		g.Leave()
	}
	sent, err := readEntries(x.worker.order.File)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range sent {
		if e.errno != 0 {
			t.Errorf("message %d: %v", e.number, syscall.Errno(e.errno))
		}
	}
}
