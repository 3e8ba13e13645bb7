package discovery

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

type kind uint8

const (
	kindPing kind = iota
	kindReply
	kindPush
	kindAck
)

func (k kind) String() string { return [...]string{"ping", "reply", "push", "ACK"}[k] }

// message is a message under way.
type message struct {
	kind        kind
	from, to    lnet.NID
	paths       []nidPair // if the path is still open: the path is chosen from these when it arrives
	sender      *simNode
	net         lnet.Net // net to use; 0 means any
	incarnation int      // of the sender
	written     int      // time of writing, in the world's count of incarnations
	id          RequestID
	asker       *simNode // node that gets the reply or ACK
	asked       int      // incarnation of asker
	content     Content
	bufferSize  int
}

// nidPair is a path of a message: a NID of the sender and one of the receiver.
type nidPair struct{ from, to lnet.NID }

type simNode struct {
	w            *network
	name         int
	incarnation  int
	restarts     int // start of this incarnation, in the world's count of incarnations
	nids         []lnet.NID
	seq          uint32
	m            *Machine
	incarnations map[*simNode]int // incarnations of other nodes, as last seen
}

// network is a set of nodes and the messages under way between them. Its seed determines all
// that happens in it. Without a random source, its caller makes the choices.
type network struct {
	random       *rand.Rand // if nil, the caller chooses, or the first choice is taken
	newest       bool       // without a random source: take the last choice instead
	now          time.Duration
	nodes        []*simNode
	messages     []message
	lossless     bool // no more losses
	notices      bool // drivers detect new incarnations
	incarnations int  // number of incarnations that have begun
	key          Key
	parked       map[Key]*simNode
	failures     []string
	trace        *strings.Builder // if nil, no trace is written
}

var errLost = errors.New("lost")

func newNetwork(seed uint64, trace *strings.Builder) *network {
	w := &network{random: rand.New(rand.NewPCG(seed, 1)), parked: map[Key]*simNode{}, notices: seed%2 == 0, trace: trace}
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

// below returns a number below n.
func (w *network) below(n int) int {
	switch {
	case w.random != nil:
		return w.random.IntN(n)
	case w.newest:
		return n - 1
	}
	return 0
}

// steps returns the number of steps that a machine makes after an event.
func (w *network) steps() int {
	if w.random == nil {
		return stepsToRest
	}
	return 1 + w.random.IntN(4)
}

// stepsToRest is more steps than any machine needs here to come to rest.
const stepsToRest = 1000

func (w *network) tracef(format string, a ...any) {
	if w.trace != nil {
		fmt.Fprintf(w.trace, "%v ", w.now)
		fmt.Fprintf(w.trace, format+"\n", a...)
	}
}

func (w *network) errorf(format string, a ...any) {
	w.failures = append(w.failures, fmt.Sprintf(format, a...))
}

// nid returns the node's NID on a net.
func (n *simNode) nid(net int) lnet.NID {
	return lnet.NIDFromNumber(lnet.Net(lnet.TypeTCP)<<16|lnet.Net(net), 10<<24|uint32(net)<<16|uint32(n.name)+1)
}

// begin starts a new incarnation.
func (n *simNode) begin() {
	n.incarnation++
	n.w.incarnations++
	n.restarts = n.w.incarnations
	n.seq = uint32(len(n.nids)) + 1
	n.m = New(Config{Local: Local{Seq: n.seq}, Nets: n.nets()})
	n.incarnations = map[*simNode]int{}
	n.w.tracef("node %d begins life %d with %v seq %d", n.name, n.incarnation, n.nids, n.seq)
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

// own returns the node's NID on the net of another NID.
func (n *simNode) own(of lnet.NID) (lnet.NID, bool) {
	i := slices.IndexFunc(n.nids, func(nid lnet.NID) bool { return nid.Net() == of.Net() })
	if i < 0 {
		return lnet.NID{}, false
	}
	return n.nids[i], true
}

// run makes up to the given number of steps of the machine.
func (n *simNode) run(steps int) {
	for range steps {
		n.act()
		if !n.m.HasWork() {
			break
		}
		n.m.Step(n.w.now)
	}
	n.act()
	if err := n.m.check(); err != nil {
		n.w.errorf("node %d: %v", n.name, err)
	}
}

func (n *simNode) act() {
	for _, a := range n.m.Actions() {
		if n.w.trace != nil {
			n.w.tracef("node %d: %s", n.name, a)
		}
		switch a := a.(type) {
		case SendPing:
			n.send(message{kind: kindPing, to: a.To, net: a.Net, id: a.ID, bufferSize: a.Size})
		case SendPush:
			n.send(message{kind: kindPush, to: a.To, id: a.ID, content: Read(n.info(), false, lnet.InterfacesMax)})
		case Release:
			for _, k := range a.Keys {
				if n.w.parked[k] != n {
					n.w.errorf("node %d: key %d is released, and was not parked", n.name, k)
				}
				delete(n.w.parked, k)
			}
		}
	}
}

// send chooses a path as selection would: to a NID of the peer that can be reached.
func (n *simNode) send(l message) {
	l.sender, l.incarnation, l.written = n, n.incarnation, n.w.incarnations
	targets := []lnet.NID{l.to}
	if v := n.m.Find(l.to); v != nil && v.State.Has(MultiRail) {
		targets = slices.Clone(v.NIDs)
		if n.w.random != nil {
			n.w.random.Shuffle(len(targets), func(i, j int) { targets[i], targets[j] = targets[j], targets[i] })
		}
	}
	for _, to := range targets {
		if from, ok := n.own(to); ok && n.w.owner(to) != nil && (l.net == 0 || to.Net() == l.net) {
			l.paths = append(l.paths, nidPair{from, to})
		}
	}
	switch {
	case len(l.paths) > 0:
		if n.w.random != nil {
			l.read(0)
		}
		n.w.messages = append(n.w.messages, l)
	case n.w.below(2) == 0:
		n.m.Refused(n.w.now, l.id, errLost)
	default:
		n.m.Failed(n.w.now, l.id, errLost)
	}
}

// read chooses the path of a message.
func (l *message) read(k int) {
	if k < len(l.paths) {
		l.from, l.to = l.paths[k].from, l.paths[k].to
		l.paths = nil
	}
}

func (w *network) owner(nid lnet.NID) *simNode {
	for _, n := range w.nodes {
		if slices.Contains(n.nids, nid) {
			return n
		}
	}
	return nil
}

// lose reports a loss to the sender of a ping or push, or to the node that waits for the
// response.
func (w *network) lose(l message) {
	w.tracef("lost: %s #%d of node %d, life %d", l.kind, l.id, l.sender.name, l.incarnation)
	switch l.kind {
	case kindPing, kindPush:
		if l.incarnation == l.sender.incarnation {
			l.sender.m.Failed(w.now, l.id, ErrTimedOut)
		}
	case kindReply, kindAck:
		if l.asker.incarnation == l.asked {
			l.asker.m.Failed(w.now, l.id, ErrTimedOut)
		}
	}
}

// deliver delivers a random message, so that messages are reordered.
func (w *network) deliver() {
	l := w.remove(w.below(len(w.messages)))
	if len(l.paths) > 0 {
		l.read(w.below(len(l.paths)))
	}
	if !w.lossless && w.owner(l.to) != nil && w.below(6) == 0 {
		w.lose(l)
		return
	}
	w.arrive(l)
}

// remove removes a message from those under way.
func (w *network) remove(k int) message {
	l := w.messages[k]
	w.messages = slices.Delete(w.messages, k, k+1)
	return l
}

// arrive delivers a message to the node that has the NID now.
func (w *network) arrive(l message) {
	n := w.owner(l.to)
	switch {
	case n == nil:
		w.lose(l)
		return
	case n.incarnations[l.sender] > l.incarnation, w.predatesIncarnation(l, n): // its connection is closed
		w.lose(l)
		return
	}
	if seen := n.incarnations[l.sender]; seen != l.incarnation {
		n.incarnations[l.sender] = l.incarnation
		if seen != 0 && w.notices {
			for _, nid := range n.m.viewOf(l.from) {
				n.m.Restarted(w.now, nid)
			}
		}
	}
	n.m.FindOrCreate(w.now, l.from)
	if w.trace != nil {
		w.tracef("node %d gets %s #%d from %s, life %d seq %d", n.name, l.kind, l.id, l.from, l.incarnation, l.content.Info.Seq)
	}
	answer := message{from: l.to, to: l.from, sender: n, incarnation: n.incarnation, written: w.incarnations, id: l.id, asker: l.sender, asked: l.incarnation}
	switch l.kind {
	case kindPing:
		b := n.info()
		answer.kind = kindReply
		answer.content = Read(b[:min(len(b), l.bufferSize)], len(b) >= l.bufferSize, lnet.InterfacesMax)
		w.messages = append(w.messages, answer)
	case kindPush:
		answer.kind = kindAck
		w.messages = append(w.messages, answer)
		n.m.PushReceived(w.now, l.from, l.content)
	case kindReply:
		if n.incarnation == l.asked {
			n.m.PingReply(w.now, l.id, Reply{To: l.to, From: l.from, Content: l.content})
		}
	case kindAck:
		if n.incarnation == l.asked {
			n.m.PushAcked(w.now, l.id)
		}
	}
	n.run(w.steps())
}

// predatesIncarnation reports whether a message was written before the incarnation of n that would receive
// it began. Such a message is lost with the earlier incarnation. It may arrive if drivers
// detect new incarnations, because then its writer finds out that it must push to n again.
// If they do not, the writer cannot know, because the new incarnation may send the same
// ping info as the earlier one.
func (w *network) predatesIncarnation(l message, n *simNode) bool {
	return !w.notices && l.written < n.restarts
}

// viewOf returns the NID alone, if it is known.
func (m *Machine) viewOf(nid lnet.NID) []lnet.NID {
	if m.Find(nid) == nil {
		return nil
	}
	return []lnet.NID{nid}
}

// sendRandom makes a node send to another one.
func (w *network) sendRandom(n, to *simNode) {
	nids := slices.DeleteFunc(slices.Clone(to.nids), func(nid lnet.NID) bool { _, ok := n.own(nid); return !ok })
	if len(nids) == 0 {
		return
	}
	w.send(n, nids[w.below(len(nids))])
}

// send makes a node send to a NID.
func (w *network) send(n *simNode, nid lnet.NID) {
	if !n.m.Find(nid).MustWait(n.m.Local()) {
		return
	}
	w.key++
	w.parked[w.key] = n
	n.m.Park(w.now, nid, w.key)
	n.run(w.steps())
}

// randomFault causes a random event or fault.
func (w *network) randomFault() {
	for range 60 + w.random.IntN(120) {
		n := w.nodes[w.random.IntN(len(w.nodes))]
		switch c := w.random.IntN(40); {
		case c < 24 && len(w.messages) > 0:
			w.deliver()
		case c < 30:
			w.sendRandom(n, w.nodes[w.random.IntN(len(w.nodes))])
		case c < 32: // an NI is added or removed; the first stays, so that all nodes can meet
			nid := n.nid(1 + w.random.IntN(2))
			if slices.Contains(n.nids, nid) {
				n.change(nid, 0)
			} else {
				n.change(nid, w.random.IntN(len(n.nids)+1))
			}
		case c < 33:
			n.restart()
		case c < 35:
			w.now += time.Duration(w.random.IntN(10)) * time.Second
			n.m.Step(w.now)
		case c < 36:
			n.m.ForcePushAll(w.now)
		}
		n.run(w.random.IntN(4))
	}
}

// change removes an NI, or adds one at a place.
func (n *simNode) change(nid lnet.NID, at int) {
	if k := slices.Index(n.nids, nid); k >= 0 {
		n.nids = slices.Delete(n.nids, k, k+1)
	} else {
		n.nids = slices.Insert(n.nids, at, nid)
	}
	n.seq++
	n.w.tracef("node %d has %v seq %d", n.name, n.nids, n.seq)
	n.m.SetSeq(n.w.now, n.seq, n.nets())
}

// restart starts a new incarnation of the node. Its queued messages are lost.
func (n *simNode) restart() {
	for k, p := range n.w.parked {
		if p == n {
			delete(n.w.parked, k)
		}
	}
	n.begin()
}

// runUntilStable runs the time after the last fault.
func (w *network) runUntilStable() {
	w.lossless = true
	w.tracef("calm")
	w.runToIdle()
	for _, n := range w.nodes {
		for _, to := range w.nodes {
			if to != n {
				w.sendRandom(n, to)
			}
		}
		w.runToIdle()
	}
}

// quietMax is more than the number of events in any world before it comes to rest.
const quietMax = 10_000

// runToIdle runs everything that is under way, including timers.
func (w *network) runToIdle() {
	for range quietMax {
		next := time.Duration(-1)
		for _, n := range w.nodes {
			n.run(stepsToRest)
			if due, ok := n.m.Due(); ok && (next < 0 || due < next) {
				next = due
			}
		}
		switch {
		case len(w.messages) > 0:
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
	w.errorf("the nodes do not come to rest")
}

// verify checks that each node knows the NIDs of each other node.
func (w *network) verify() {
	if len(w.parked) != 0 {
		w.errorf("parked, and never released: %v", w.parked)
	}
	for _, n := range w.nodes {
		for _, of := range w.nodes {
			if of != n {
				w.verifyKnown(n, of)
			}
		}
	}
}

func (w *network) verifyKnown(n, of *simNode) {
	v := n.m.Find(of.nid(0))
	if v == nil {
		w.errorf("node %d does not know node %d", n.name, of.name)
		return
	}
	same := v.Primary == of.nids[0] && len(v.NIDs) == len(of.nids)
	for _, nid := range of.nids {
		same = same && slices.Contains(v.NIDs, nid)
	}
	if !same {
		w.errorf("node %d of node %d, which has %v: %s", n.name, of.name, of.nids, v)
	}
	if !v.UpToDate(n.m.Local()) {
		w.errorf("node %d of node %d: not up to date: %s", n.name, of.name, v)
	}
}
