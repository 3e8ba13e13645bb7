package discovery

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnet"
)

var seeds = flag.Uint("seeds", 400, "how many worlds TestNodesConverge makes")

// TestNodesConverge has nodes that discover each other while messages are lost,
// overtake each other, NIs come and go and nodes restart. After the last of this
// each node sends to each other one once more; then all know what each is, and
// each message that waited was given back once. In every other world no driver
// notices that a node has restarted.
//
// discovery 1, 10 (1)-(9), 5.3 sent
func TestNodesConverge(t *testing.T) {
	for seed := range uint64(*seeds) {
		w := newWorld(t, seed)
		w.trouble()
		w.settle()
		w.verify()
		if t.Failed() {
			t.Fatalf("seed %d:\n%s", seed, w.trace)
		}
	}
}

type kind uint8

const (
	kindPing kind = iota
	kindReply
	kindPush
	kindAck
)

// letter is a message under way.
type letter struct {
	kind     kind
	from, to lnet.NID
	sender   *simNode
	life     int // of the sender
	id       RequestID
	asker    *simNode // who gets the reply or ACK
	asked    int      // its life
	content  Content
	room     int
}

type simNode struct {
	w     *world
	name  int
	life  int
	nids  []lnet.NID
	seq   uint32
	m     *Machine
	lives map[*simNode]int // of others, as last seen
}

type world struct {
	t       *testing.T
	random  *rand.Rand
	now     time.Duration
	nodes   []*simNode
	letters []letter
	calm    bool // nothing is lost any more
	notices bool // drivers tell of new lives
	key     Key
	parked  map[Key]*simNode
	trace   string
}

var errLost = errors.New("lost")

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, random: rand.New(rand.NewPCG(seed, 1)), parked: map[Key]*simNode{}, notices: seed%2 == 0}
	for name := range 2 + int(seed/2)%2 {
		n := &simNode{w: w, name: name}
		n.nids = []lnet.NID{n.nid(0)}
		if w.random.IntN(2) == 0 {
			n.nids = append(n.nids, n.nid(1))
		}
		n.begin()
		w.nodes = append(w.nodes, n)
	}
	return w
}

func (w *world) tracef(format string, a ...any) {
	w.trace += fmt.Sprintf("%v ", w.now) + fmt.Sprintf(format, a...) + "\n"
}

// nid is the node's NID on a net.
func (n *simNode) nid(net int) lnet.NID {
	return lnet.NIDFromNumber(lnet.Net(lnet.TypeTCP)<<16|lnet.Net(net), 10<<24|uint32(net)<<16|uint32(n.name)+1)
}

// begin is a new life.
func (n *simNode) begin() {
	n.life++
	n.seq = uint32(len(n.nids)) + 1
	n.m = New(Config{Local: Local{Seq: n.seq}, Nets: n.nets()})
	n.lives = map[*simNode]int{}
	n.w.tracef("node %d begins life %d with %v seq %d", n.name, n.life, n.nids, n.seq)
}

func (n *simNode) nets() (nets []lnet.Net) {
	for _, nid := range n.nids {
		nets = append(nets, nid.Net())
	}
	return nets
}

func (n *simNode) info() []byte {
	info := lnet.PingInfo{
		Features: lnet.FeatNIStatus | lnet.FeatRoutingDisabled | lnet.FeatMultiRail | lnet.FeatDiscovery,
		PID:      lnet.PIDLustre, Seq: n.seq,
	}
	for _, nid := range n.nids {
		info.NIs = append(info.NIs, lnet.PingNI{NID: nid, Status: lnet.StatusUp})
	}
	return info.Append(nil, binary.LittleEndian)
}

// own is the node's NID on the net of another one.
func (n *simNode) own(of lnet.NID) (lnet.NID, bool) {
	i := slices.IndexFunc(n.nids, func(nid lnet.NID) bool { return nid.Net() == of.Net() })
	if i < 0 {
		return lnet.NID{}, false
	}
	return n.nids[i], true
}

// run steps the machine, to the end or not.
func (n *simNode) run(steps int) {
	for range steps {
		n.act()
		if !n.m.Ready() {
			break
		}
		n.m.Step(n.w.now)
	}
	n.act()
	if err := n.m.check(); err != nil {
		n.w.t.Errorf("node %d: %v", n.name, err)
	}
}

func (n *simNode) act() {
	for _, a := range n.m.Actions() {
		switch a := a.(type) {
		case SendPing:
			n.w.tracef("node %d: %s", n.name, a)
			n.send(letter{kind: kindPing, to: a.To, id: a.ID, room: a.Size})
		case SendPush:
			n.w.tracef("node %d: %s", n.name, a)
			n.send(letter{kind: kindPush, to: a.To, id: a.ID, content: Read(n.info(), false, lnet.InterfacesMax)})
		case Release:
			for _, k := range a.Keys {
				if n.w.parked[k] != n {
					n.w.t.Errorf("node %d: key %d is released, and was not parked", n.name, k)
				}
				delete(n.w.parked, k)
			}
		}
	}
}

// send picks a path as selection would: a NID of the peer that can be reached.
func (n *simNode) send(l letter) {
	l.sender, l.life = n, n.life
	ways := []lnet.NID{l.to}
	if v := n.m.Find(l.to); v != nil && v.State.Has(MultiRail) {
		ways = slices.Clone(v.NIDs)
		n.w.random.Shuffle(len(ways), func(i, j int) { ways[i], ways[j] = ways[j], ways[i] })
	}
	for _, to := range ways {
		if from, ok := n.own(to); ok && n.w.owner(to) != nil {
			l.from, l.to = from, to
			n.w.letters = append(n.w.letters, l)
			return
		}
	}
	if n.w.random.IntN(2) == 0 {
		n.m.Refused(n.w.now, l.id, errLost)
	} else {
		n.m.Failed(n.w.now, l.id, errLost)
	}
}

func (w *world) owner(nid lnet.NID) *simNode {
	for _, n := range w.nodes {
		if slices.Contains(n.nids, nid) {
			return n
		}
	}
	return nil
}

// lose tells the sender of a ping or push, or who waits for the answer.
func (w *world) lose(l letter) {
	w.tracef("lost: %d of node %d, #%d", l.kind, l.sender.name, l.id)
	switch l.kind {
	case kindPing, kindPush:
		if l.life == l.sender.life {
			l.sender.m.Failed(w.now, l.id, ErrTimedOut)
		}
	case kindReply, kindAck:
		if l.asker.life == l.asked {
			l.asker.m.Failed(w.now, l.id, ErrTimedOut)
		}
	}
}

// deliver takes one letter, any one: they overtake each other.
func (w *world) deliver() {
	k := w.random.IntN(len(w.letters))
	l := w.letters[k]
	w.letters = slices.Delete(w.letters, k, k+1)
	n := w.owner(l.to)
	switch {
	case n == nil, !w.calm && w.random.IntN(6) == 0:
		w.lose(l)
		return
	case n.lives[l.sender] > l.life: // its connection is closed
		w.lose(l)
		return
	}
	if seen := n.lives[l.sender]; seen != l.life {
		n.lives[l.sender] = l.life
		if seen != 0 && w.notices {
			for _, nid := range n.m.viewOf(l.from) {
				n.m.Restarted(w.now, nid)
			}
		}
	}
	n.m.Meet(w.now, l.from)
	w.tracef("node %d gets %d #%d from %s seq %d", n.name, l.kind, l.id, l.from, l.content.Info.Seq)
	answer := letter{from: l.to, to: l.from, sender: n, life: n.life, id: l.id, asker: l.sender, asked: l.life}
	switch l.kind {
	case kindPing:
		b := n.info()
		answer.kind = kindReply
		answer.content = Read(b[:min(len(b), l.room)], len(b) >= l.room, lnet.InterfacesMax)
		w.letters = append(w.letters, answer)
	case kindPush:
		answer.kind = kindAck
		w.letters = append(w.letters, answer)
		n.m.PushReceived(w.now, l.from, l.content)
	case kindReply:
		if n.life == l.asked {
			n.m.PingReply(w.now, l.id, Reply{To: l.to, From: l.from, Content: l.content})
		}
	case kindAck:
		if n.life == l.asked {
			n.m.PushAcked(w.now, l.id)
		}
	}
	n.run(1 + w.random.IntN(4))
}

// viewOf is the one NID, if it is known.
func (m *Machine) viewOf(nid lnet.NID) []lnet.NID {
	if m.Find(nid) == nil {
		return nil
	}
	return []lnet.NID{nid}
}

// talk has a node send to another one.
func (w *world) talk(n, to *simNode) {
	nids := slices.DeleteFunc(slices.Clone(to.nids), func(nid lnet.NID) bool { _, ok := n.own(nid); return !ok })
	if len(nids) == 0 {
		return
	}
	nid := nids[w.random.IntN(len(nids))]
	if !n.m.Find(nid).MustWait(n.m.Local()) {
		return
	}
	w.key++
	w.parked[w.key] = n
	n.m.Park(w.now, nid, w.key)
	n.run(1 + w.random.IntN(4))
}

// trouble is everything that can happen.
func (w *world) trouble() {
	for range 60 + w.random.IntN(120) {
		n := w.nodes[w.random.IntN(len(w.nodes))]
		switch c := w.random.IntN(40); {
		case c < 24 && len(w.letters) > 0:
			w.deliver()
		case c < 30:
			w.talk(n, w.nodes[w.random.IntN(len(w.nodes))])
		case c < 32: // an NI comes or goes; the first stays, so that all can meet
			nid := n.nid(1 + w.random.IntN(2))
			if k := slices.Index(n.nids, nid); k >= 0 {
				n.nids = slices.Delete(n.nids, k, k+1)
			} else {
				n.nids = slices.Insert(n.nids, w.random.IntN(len(n.nids)+1), nid)
			}
			n.seq++
			w.tracef("node %d has %v seq %d", n.name, n.nids, n.seq)
			n.m.SetSeq(w.now, n.seq, n.nets())
		case c < 33:
			for k, p := range w.parked {
				if p == n {
					delete(w.parked, k)
				}
			}
			n.begin()
		case c < 35:
			w.now += time.Duration(w.random.IntN(10)) * time.Second
			n.m.Step(w.now)
		case c < 36:
			n.m.ForcePushAll(w.now)
		}
		n.run(w.random.IntN(4))
	}
}

// settle is the time after the last fault.
func (w *world) settle() {
	w.calm = true
	w.tracef("calm")
	w.quiet()
	for _, n := range w.nodes {
		for _, to := range w.nodes {
			if to != n {
				w.talk(n, to)
			}
		}
		w.quiet()
	}
}

// quiet lets all happen that is on its way, timers included.
func (w *world) quiet() {
	for range 100_000 {
		next := time.Duration(-1)
		for _, n := range w.nodes {
			n.run(1000)
			if due, ok := n.m.Due(); ok && (next < 0 || due < next) {
				next = due
			}
		}
		switch {
		case len(w.letters) > 0:
			w.deliver()
		case next >= 0:
			w.now = max(w.now, next)
			for _, n := range w.nodes {
				n.m.Step(w.now)
			}
		default:
			return
		}
	}
	w.t.Error("the nodes do not come to rest")
}

func (w *world) verify() {
	if len(w.parked) != 0 {
		w.t.Errorf("parked, and never released: %v", w.parked)
	}
	type identity struct {
		Primary lnet.NID
		NIDs    []lnet.NID
	}
	for _, n := range w.nodes {
		for _, of := range w.nodes {
			if of == n {
				continue
			}
			v := n.m.Find(of.nid(0))
			if v == nil {
				w.t.Errorf("node %d does not know node %d", n.name, of.name)
				continue
			}
			sorted := func(nids []lnet.NID) []lnet.NID {
				nids = slices.Clone(nids)
				slices.SortFunc(nids, lnet.NID.Compare)
				return nids
			}
			want := identity{of.nids[0], sorted(of.nids)}
			got := identity{v.Primary, sorted(v.NIDs)}
			if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b lnet.NID) bool { return a == b })); diff != "" {
				w.t.Errorf("node %d of node %d: %s", n.name, of.name, diff)
			}
			if !v.UpToDate(n.m.Local()) {
				w.t.Errorf("node %d of node %d: not up to date: %s", n.name, of.name, v)
			}
		}
	}
}
