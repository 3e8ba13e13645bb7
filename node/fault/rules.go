package fault

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// ID identifies a rule within one Rules. It is never 0, and is not reused after the rule
// was removed.
type ID uint64

// Rules holds the rules and failing NIDs of one node. New creates it. All methods are
// safe for concurrent use and never block for long. The checks of a message (DropArrival,
// FailSend, Hold, Fails) do not allocate, and cost one atomic load if there is no rule of
// that kind.
//
// Times are nanoseconds of the caller's clock, which must not go backwards.
type Rules struct {
	present atomic.Uint32 // which kinds of rules exist; written under mu

	mu      sync.Mutex // guards the fields below, and the entries
	seed    uint64
	last    ID
	drops   []*entry // newest first, as they are searched
	delays  []*entry
	failing map[lnet.NID]int // remaining messages; negative for no limit
}

// Bits of Rules.present, one for each kind of rule.
const (
	someDrops uint32 = 1 << iota
	someDelays
	someFailing
)

// entry is a rule with its trigger and counters.
type entry struct {
	id ID
	Rule
	trigger
	counts Counts
}

// Counts are the counters of a rule, since it was added or Rules.Reset was called.
type Counts struct {
	// Matched counts the messages that passed the filters. A message that a newer rule of the
	// same kind has hit is not included.
	Matched uint64
	// Hits counts the messages that were dropped, failed or held. It is the sum of Put, Ack,
	// Get and Reply.
	Hits uint64
	// Hits by message type.
	Put, Ack, Get, Reply uint64
}

// Status is a rule with its counters.
type Status struct {
	ID ID
	// Rule is the rule as it was added, except that Messages of a rule with portals holds
	// only the types that it can match.
	Rule
	Counts Counts
}

// New returns an empty set of rules. Random choices are repeatable: those of a rule depend
// only on the seed, on the number of rules added before it, and on the messages that it
// has matched.
func New(seed uint64) *Rules {
	return &Rules{seed: seed, failing: make(map[lnet.NID]int)}
}

// Active reports whether any rule or failing NID exists. If it returns false, the caller
// can skip all other checks of a message. It costs one atomic load.
func (r *Rules) Active() bool { return r.present.Load() != 0 }

// has reports whether a rule of the given kind, one of the bits of present, exists.
func (r *Rules) has(what uint32) bool { return r.present.Load()&what != 0 }

// changed updates present after a rule or failing NID was added or removed. r.mu must be
// held.
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

// list returns the list of rules of kind k, or nil if k is not a kind.
func (r *Rules) list(k Kind) *[]*entry {
	switch k {
	case Drop:
		return &r.drops
	case Delay:
		return &r.delays
	}
	return nil
}

// Add inserts a rule before all others of its kind. It returns ErrInvalid if the rule is
// invalid.
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

// Remove removes the rules of kind k that were added with exactly these filters. A filter
// for all NIDs stands for any filter, so two of them remove every rule. Remove returns the
// IDs of the removed rules. The caller must then release the messages that it holds for
// these rules (see Hold).
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

// Reset zeroes the counters of all rules and makes their rates start again, so that the
// new counters match the rates.
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

// List returns the rules of kind k in the order in which they are searched, newest first.
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

// DropArrival reports whether a message that has arrived must be discarded. The caller
// must call it once for each arrived message, including messages to be forwarded, before
// the message is matched.
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

// FailSend reports whether the caller must fail a message that it is about to send, and
// with which status. The caller must call it for each attempt to send.
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

// Hold reports whether a message must be held, until when, and because of which rule. The
// caller must call it for each arrived message, before it is matched or forwarded, and for
// each message to be sent, when its credits were acquired. Messages held by one rule are
// due in the order of the calls.
//
// The caller must release each message when it is due, or when Remove returns the ID of
// its rule. The caller must hold one lock while it calls Hold and stores the message, and
// while it calls Remove. Otherwise Remove could miss a message that is about to be stored.
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

// take reports whether the rule hits the message, and counts a message that matches.
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

// status returns the status with which a send that the rule has hit must fail.
func (e *entry) status() lnd.Status {
	if e.Statuses == 0 { // the rule has DropAll
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
