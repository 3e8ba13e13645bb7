package clients

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/lnetd/lnetd/transport"
)

// Total is the sum of all present and past clients of one rule.
type Total struct {
	// Rule is the name of the rule. It is empty for clients without a rule.
	Rule string
	// Clients, TMs and Buffers are the numbers of clients, TMs and buffers that exist now. Bytes is the
	// total size of the areas that exist now.
	Clients, TMs, Buffers int
	Bytes                 int64

	// The fields below are counters, which only grow. CutOffs counts the clients that lnetd has
	// disconnected, except those that Close has disconnected.
	CutOffs  uint64
	Requests uint64
	Rejected uint64
	// Waits counts how often lnetd slept because a client submitted nothing, BellReads how often a client
	// woke it, and BellWrites how often it woke a client.
	Waits, BellReads, BellWrites uint64
	// Polls counts how often lnetd polled a submission ring before it slept, and Found how often that found a
	// submission.
	Polls, Found uint64
	Queues       [transport.QueueTypes]QueueFigures
}

// tally holds those fields of a Total that are counters.
type tally struct {
	cutOffs, requests, rejected  uint64
	waits, bellReads, bellWrites uint64
	polls, found                 uint64
	queues                       [transport.QueueTypes]QueueFigures
}

func (t *tally) add(o *tally) {
	t.cutOffs += o.cutOffs
	t.requests += o.requests
	t.rejected += o.rejected
	t.waits += o.waits
	t.bellReads += o.bellReads
	t.bellWrites += o.bellWrites
	t.polls += o.polls
	t.found += o.found
	t.addQueues(&o.queues)
}

func (t *tally) addQueues(o *[transport.QueueTypes]QueueFigures) {
	for q := range o {
		t.queues[q].Depth += o[q].Depth
		t.queues[q].add(&o[q])
	}
}

// Totals returns the sums for each rule, ordered by name, and for the clients without a rule. The counters
// of past clients are included as long as the rule exists or a client has it. Rules that have had no
// clients yet are included with zeros. Otherwise monitoring would not detect the first increase of their
// counters.
func (s *Server) Totals() []Total {
	s.mu.Lock()
	sums := make(map[string]*Total, len(s.goneClients))
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
	for rule, t := range s.goneClients {
		at(rule).add(t)
	}
	all := make([]*client, 0, len(s.clients))
	for _, c := range s.clients {
		all = append(all, c)
	}
	s.mu.Unlock()
	// A client that has been removed since then is in all, and is not counted in s.goneClients above.
	for _, c := range all {
		i, t := c.info(), c.tally()
		sum := at(i.Rule)
		sum.Clients++
		sum.TMs += len(i.TMs)
		sum.Buffers += i.Buffers
		sum.Bytes += i.Bytes
		sum.add(&t)
	}
	list := make([]Total, 0, len(sums))
	for _, t := range sums {
		list = append(list, *t)
	}
	slices.SortFunc(list, func(a, b Total) int { return cmp.Compare(a.Rule, b.Rule) })
	return list
}

// prune removes the counters of rules that no longer exist and that no connected client has. It keeps the
// counters of clients without a rule. The caller holds mu.
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
	maps.DeleteFunc(s.goneClients, func(rule string, _ *tally) bool { return !stays[rule] })
}

func (t *Total) add(by *tally) {
	sum := tally{t.CutOffs, t.Requests, t.Rejected, t.Waits, t.BellReads, t.BellWrites, t.Polls, t.Found, t.Queues}
	sum.add(by)
	t.CutOffs, t.Requests, t.Rejected, t.Queues = sum.cutOffs, sum.requests, sum.rejected, sum.queues
	t.Waits, t.BellReads, t.BellWrites = sum.waits, sum.bellReads, sum.bellWrites
	t.Polls, t.Found = sum.polls, sum.found
}

// tally returns the counters of the client, including those of stopped TMs.
func (c *client) tally() tally {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := c.stoppedTMs
	sum.requests = c.requests
	if c.reason != nil && !errors.Is(c.reason, errServerClosed) {
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

// tally returns the counters of the TM, including operations under way.
func (t *tm) tally() tally {
	taken, put, waits := t.ring.Submissions.Stats(), t.ring.Completions.Stats(), t.ring.Submissions.WaitStats()
	t.mu.Lock()
	defer t.mu.Unlock()
	sum := tally{
		rejected: t.rejected, waits: taken.Sleeps, bellReads: taken.Reads, bellWrites: put.Wakeups,
		polls: waits.Polls, found: waits.Found, queues: t.figures,
	}
	for q := range sum.queues {
		sum.queues[q].Depth = t.depth[q]
	}
	return sum
}
