package clients

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/lnetd/lnetd/transport"
)

// Total is what there is, and has been, of all clients for whom one rule holds.
type Total struct {
	// Rule is its name; empty: those for whom there is none.
	Rule string
	// Clients, TMs and Buffers are numbers, Bytes is the size of areas: those of now.
	Clients, TMs, Buffers int
	Bytes                 int64

	// What follows only grows. CutOffs counts clients that were not let go on, but for
	// those that were there when the Server was closed.
	CutOffs  uint64
	Requests uint64
	Rejected uint64
	// Waits is how often lnetd went to sleep for want of submissions, BellReads how often it
	// was woken then, BellWrites how often it had to wake a client.
	Waits, BellReads, BellWrites uint64
	Queues                       [transport.QueueTypes]QueueFigures
}

// tally is the part of a Total that only grows.
type tally struct {
	cutOffs, requests, rejected  uint64
	waits, bellReads, bellWrites uint64
	queues                       [transport.QueueTypes]QueueFigures
}

func (t *tally) add(o *tally) {
	t.cutOffs += o.cutOffs
	t.requests += o.requests
	t.rejected += o.rejected
	t.waits += o.waits
	t.bellReads += o.bellReads
	t.bellWrites += o.bellWrites
	t.addQueues(&o.queues)
}

func (t *tally) addQueues(o *[transport.QueueTypes]QueueFigures) {
	for q := range o {
		t.queues[q].Depth += o[q].Depth
		t.queues[q].add(&o[q])
	}
}

// Totals are the sums of each rule, by name, and of those for whom there is none. What
// clients did that are gone stays in them, as long as there is a rule of the name, or a
// client that it holds for. A rule is there before its first client, since what grows from
// nothing has not grown for who watches it.
func (s *Server) Totals() []Total {
	s.mu.Lock()
	sums := make(map[string]*Total, len(s.past))
	at := func(rule string) *Total {
		if sums[rule] == nil {
			sums[rule] = &Total{Rule: rule}
		}
		return sums[rule]
	}
	at("")
	for _, r := range *s.rules.Load() {
		at(r.Name)
	}
	for rule, t := range s.past {
		at(rule).grow(t)
	}
	all := make([]*client, 0, len(s.clients))
	for _, c := range s.clients {
		all = append(all, c)
	}
	s.mu.Unlock()
	// Who is forgotten meanwhile still has his figures, and is not in those of the past.
	for _, c := range all {
		i, t := c.info(), c.tally()
		sum := at(i.Rule)
		sum.Clients++
		sum.TMs += len(i.TMs)
		sum.Buffers += i.Buffers
		sum.Bytes += i.Bytes
		sum.grow(&t)
	}
	list := make([]Total, 0, len(sums))
	for _, t := range sums {
		list = append(list, *t)
	}
	slices.SortFunc(list, func(a, b Total) int { return cmp.Compare(a.Rule, b.Rule) })
	return list
}

// prune forgets the past of rules that are no more, and that hold for nobody; of those for
// whom there was none it stays. mu is held.
func (s *Server) prune() {
	stays := map[string]bool{"": true}
	for _, r := range *s.rules.Load() {
		stays[r.Name] = true
	}
	for _, c := range s.clients {
		if c.rule != nil {
			stays[c.rule.Name] = true
		}
	}
	maps.DeleteFunc(s.past, func(rule string, _ *tally) bool { return !stays[rule] })
}

func (t *Total) grow(by *tally) {
	sum := tally{t.CutOffs, t.Requests, t.Rejected, t.Waits, t.BellReads, t.BellWrites, t.Queues}
	sum.add(by)
	t.CutOffs, t.Requests, t.Rejected, t.Queues = sum.cutOffs, sum.requests, sum.rejected, sum.queues
	t.Waits, t.BellReads, t.BellWrites = sum.waits, sum.bellReads, sum.bellWrites
}

// tally is what a client has done, with TMs that it has no more.
func (c *client) tally() tally {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := c.done
	sum.requests = c.requests
	if c.reason != nil && !errors.Is(c.reason, errEnd) {
		sum.cutOffs = 1
	}
	for _, t := range c.tms {
		if t != nil {
			of := t.tally()
			sum.add(&of)
		}
	}
	return sum
}

// tally is what a TM has done, and has under way.
func (t *tm) tally() tally {
	taken, put := t.ring.Submissions.Stats(), t.ring.Completions.Stats()
	t.mu.Lock()
	defer t.mu.Unlock()
	sum := tally{
		rejected: t.rejected, waits: taken.Sleeps, bellReads: taken.Reads, bellWrites: put.Rung, queues: t.figures,
	}
	for q := range sum.queues {
		sum.queues[q].Depth = t.depth[q]
	}
	return sum
}
