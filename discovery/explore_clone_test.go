package discovery

import (
	"maps"
	"slices"

	"github.com/lnetd/lnetd/lnet"
)

// clone returns a copy of a network that shares no mutable state with it. Its machines must
// be at rest.
func (w *network) clone() *network {
	c := &network{now: w.now, lossless: w.lossless, newest: w.newest, notices: w.notices, incarnations: w.incarnations, key: w.key, parked: make(map[Key]*simNode, len(w.parked))}
	nodes := make(map[*simNode]*simNode, len(w.nodes))
	for _, n := range w.nodes {
		d := &simNode{w: c, name: n.name, incarnation: n.incarnation, restarts: n.restarts, nids: slices.Clone(n.nids), seq: n.seq, m: n.m.clone()}
		nodes[n] = d
		c.nodes = append(c.nodes, d)
	}
	for _, n := range w.nodes {
		lives := make(map[*simNode]int, len(n.incarnations))
		for of, life := range n.incarnations {
			lives[nodes[of]] = life
		}
		nodes[n].incarnations = lives
	}
	for k, n := range w.parked {
		c.parked[k] = nodes[n]
	}
	c.messages = slices.Clone(w.messages)
	for k := range c.messages {
		l := &c.messages[k]
		l.sender, l.asker = nodes[l.sender], nodes[l.asker]
	}
	return c
}

// clone returns a copy of a Machine at rest. Content and Views are shared, because they are
// immutable.
func (m *Machine) clone() *Machine {
	if m.HasWork() || len(m.actions) > 0 {
		panic("clone of a machine that is not at rest")
	}
	c := *m
	c.nets = maps.Clone(m.nets)
	c.nis = make(map[lnet.NID]*ni, len(m.nis))
	c.requests = make(map[RequestID]*peer, len(m.requests))
	c.queue, c.sweeps, c.released, c.orphanWaiters, c.changedPeers, c.gatewayInfos, c.wakes, c.actions, c.freeActions = queue{}, nil, nil, nil, nil, nil, nil, nil, nil
	c.first, c.last = nil, nil
	peers := make(map[*peer]*peer, m.count)
	for p := m.first; p != nil; p = p.next {
		q := *p
		q.prev, q.next, q.qprev, q.qnext = c.last, nil, nil, nil
		if c.last != nil {
			c.last.next = &q
		} else {
			c.first = &q
		}
		c.last = &q
		peers[p] = &q
		q.nis = make([]*ni, len(p.nis))
		for k, i := range p.nis {
			j := *i
			j.peer = &q
			q.nis[k] = &j
			c.nis[j.nid] = &j
		}
		if p.work != nil {
			work := *p.work
			work.parked, work.waiters = slices.Clone(work.parked), slices.Clone(work.waiters)
			q.work = &work
		}
	}
	for id, p := range m.requests {
		c.requests[id] = peers[p]
	}
	c.timers = make(timers, len(m.timers))
	for k, p := range m.timers {
		c.timers[k] = peers[p]
	}
	return &c
}
