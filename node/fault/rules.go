package fault

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// ID tells the rules of one Rules apart. It is never 0, and none is used twice.
type ID uint64

// Rules are the rules and failing NIDs of one node. They are made by New, and
// safe for concurrent use. All methods return at once. The checks of a message
// (DropArrival, FailSend, Hold, Fails) allocate nothing, and cost one atomic
// load while there is nothing for them to look at.
//
// Times are in nanoseconds of the caller's clock, which does not go back.
type Rules struct {
	present atomic.Uint32 // what there is; written under mu

	mu      sync.Mutex // guards what follows, and the entries
	seed    uint64
	last    ID
	drops   []*entry // the newest first, as they are searched
	delays  []*entry
	failing map[lnet.NID]int // how many messages more; below 0 for ever
}

// Bits of Rules.present.
const (
	someDrops uint32 = 1 << iota
	someDelays
	someFailing
)

// entry is a rule with what it has done.
type entry struct {
	id ID
	Rule
	trigger
	counts Counts
}

// Counts is what a rule has done since it was added or Reset.
type Counts struct {
	// Matched counts the messages that passed the filters and reached the rule:
	// that no newer one had hit.
	Matched uint64
	// Hits counts those dropped, failed or held; it is the sum of the others.
	Hits uint64
	// By type of the message hit.
	Put, Ack, Get, Reply uint64
}

// Status is a rule and what it has done.
type Status struct {
	ID ID
	// Rule is as it was added, but with portals its Messages are those left.
	Rule
	Counts Counts
}

// New makes an empty set. Everything random follows from the seed and from
// what the methods are called with, in which order: a rule's choices depend on
// the seed, on how many rules were added before it, and on the messages that it
// saw.
func New(seed uint64) *Rules {
	return &Rules{seed: seed, failing: make(map[lnet.NID]int)}
}

// Active tells whether there is any rule or failing NID, at the cost of one
// atomic load: without any, nothing else need be asked about a message.
func (r *Rules) Active() bool { return r.present.Load() != 0 }

// has tells whether there is anything of that kind.
func (r *Rules) has(what uint32) bool { return r.present.Load()&what != 0 }

// changed brings present up to date. The caller holds mu.
func (r *Rules) changed() {
	var present uint32
	if len(r.drops) != 0 {
		present |= someDrops
	}
	if len(r.delays) != 0 {
		present |= someDelays
	}
	if len(r.failing) != 0 {
		present |= someFailing
	}
	r.present.Store(present)
}

// list is where the rules of a kind are; nil for what is no kind.
func (r *Rules) list(k Kind) *[]*entry {
	switch k {
	case Drop:
		return &r.drops
	case Delay:
		return &r.delays
	}
	return nil
}

// Add puts a rule in front of all others of its kind. One that makes no sense
// is ErrInvalid.
func (r *Rules) Add(rule Rule, now int64) error {
	if err := rule.check(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	random := rand.New(rand.NewPCG(r.seed, uint64(r.last)))
	e := &entry{id: r.last, Rule: rule.restricted(), trigger: newTrigger(&rule, random, now)}
	l := r.list(rule.Kind)
	*l = slices.Insert(*l, 0, e)
	r.changed()
	return nil
}

// Remove takes away the rules of a kind that were added with exactly these
// filters; the filter of all stands for any filter, so that two of them take
// away every rule. It returns the rules that are gone. What the caller holds
// for them (Hold) it must now let go.
func (r *Rules) Remove(k Kind, source, dest NIDFilter) []ID {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.list(k)
	if l == nil {
		return nil
	}
	var gone []ID
	*l = slices.DeleteFunc(*l, func(e *entry) bool {
		named := (source.IsAny() || source == e.Source) && (dest.IsAny() || dest == e.Dest)
		if named {
			gone = append(gone, e.id)
		}
		return named
	})
	r.changed()
	return gone
}

// Reset zeroes the counts of all rules. Each rate begins anew, so that from
// here too the hits are one of every so many counted.
func (r *Rules) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range [...][]*entry{r.drops, r.delays} {
		for _, e := range l {
			e.counts = Counts{}
			e.restart()
		}
	}
}

// List returns the rules of a kind in the order in which they are searched:
// the newest first.
func (r *Rules) List(k Kind) []Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.list(k)
	if l == nil {
		return nil
	}
	all := make([]Status, 0, len(*l))
	for _, e := range *l {
		all = append(all, Status{ID: e.id, Rule: e.Rule, Counts: e.counts})
	}
	return all
}

// DropArrival tells whether a message that has arrived, for this node or to be
// forwarded, is to be discarded. It is asked once per message, before any
// matching.
func (r *Rules) DropArrival(m *Message, now int64) bool {
	if !r.has(someDrops) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.drops {
		if (e.DropAll || e.Statuses == 0) && e.take(m, now) {
			return true
		}
	}
	return false
}

// FailSend tells whether a message that is about to be transmitted, for the
// first time or again, is to fail instead, and with which status.
func (r *Rules) FailSend(m *Message, now int64) (status lnd.Status, fail bool) {
	if !r.has(someDrops) {
		return lnd.StatusOK, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.drops {
		if (e.DropAll || e.Statuses != 0) && e.take(m, now) {
			return e.status(), true
		}
	}
	return lnd.StatusOK, false
}

// Hold tells whether a message is to be held, until when, and by which rule.
// It is asked on arrival, before matching and forwarding, and on sending, after
// the credits were taken. What one rule holds is due in the order of its calls.
//
// Who holds the messages lets go of each at its time or when Remove returns its
// rule. One lock of the caller's, around Hold with the keeping of the message
// and around Remove with the letting go, sees to it that none stays behind.
func (r *Rules) Hold(m *Message, now int64) (until int64, by ID, hold bool) {
	if !r.has(someDelays) {
		return 0, 0, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.delays {
		if e.take(m, now) {
			return later(now, e.Latency), e.id, true
		}
	}
	return 0, 0, false
}

// take shows the message to the rule and tells whether it is hit.
func (e *entry) take(m *Message, now int64) bool {
	if !e.match(m) {
		return false
	}
	e.counts.Matched++
	if !e.DropAll && !e.hit(now) {
		return false
	}
	e.counts.hit(m.Type)
	return true
}

// status is what a send that the rule hits fails with.
func (e *entry) status() lnd.Status {
	if e.Statuses == 0 { // by DropAll: it went nowhere
		return lnd.StatusLocalDropped
	}
	return e.Statuses.draw(e.random)
}

func (c *Counts) hit(t lnet.MsgType) {
	c.Hits++
	switch t {
	case lnet.MsgPut:
		c.Put++
	case lnet.MsgAck:
		c.Ack++
	case lnet.MsgGet:
		c.Get++
	case lnet.MsgReply:
		c.Reply++
	}
}
