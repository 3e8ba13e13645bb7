package discovery

import (
	"fmt"
)

// check returns an error if an invariant of the machine is violated.
func (m *Machine) check() error {
	nids, peers := 0, 0
	for p := m.first; p != nil; p = p.next {
		peers++
		member, routes := false, 0
		for k, i := range p.nis {
			nids++
			routes += i.routes
			member = member || i.nid == p.primary
			if i.peer != p || m.nis[i.nid] != i {
				return fmt.Errorf("nid %s of p%d is listed elsewhere", i.nid, p.id)
			}
			if k > 0 && p.nis[k-1].nid.Net() != i.nid.Net() {
				for _, j := range p.nis[:k] {
					if j.nid.Net() == i.nid.Net() {
						return fmt.Errorf("p%d: nids are not grouped by net", p.id)
					}
				}
			}
		}
		switch w := p.work; {
		case !member:
			return fmt.Errorf("p%d: primary nid %s is not one of its nids", p.id, p.primary)
		case routes != p.routes:
			return fmt.Errorf("p%d: %d routes, its nids %d", p.id, p.routes, routes)
		case p.state.Has(MarkDeleted):
			return fmt.Errorf("p%d is deleted, and listed", p.id)
		case p.state.Has(Discovering) && w == nil:
			return fmt.Errorf("p%d: a round runs without its work", p.id)
		case p.queued && !p.state.Has(Discovering):
			return fmt.Errorf("p%d is queued without a round", p.id)
		case p.state.Has(PingSent) != (w != nil && w.ping != 0), p.state.Has(PushSent) != (w != nil && w.push != 0):
			return fmt.Errorf("p%d: %s, but what is under way differs", p.id, p.state)
		case p.state.Has(DataPresent) != (w != nil && w.data != nil):
			return fmt.Errorf("p%d: %s, but data differs", p.id, p.state)
		case !p.state.Has(Discovering) && w != nil && len(w.parked)+len(w.waiters) > 0:
			return fmt.Errorf("p%d: somebody waits for a round that does not run", p.id)
		case p.state.Has(Discovering) && !p.queued && w.ping == 0 && w.push == 0:
			return fmt.Errorf("p%d: a round waits for nothing: %s", p.id, p.state)
		case w != nil && w.ping != 0 && m.requests[w.ping] != p, w != nil && w.push != 0 && m.requests[w.push] != p:
			return fmt.Errorf("p%d: a request is not in the books", p.id)
		case p.timerIndex != 0 && (p.timerIndex > len(m.timers) || m.timers[p.timerIndex-1] != p):
			return fmt.Errorf("p%d: timer %d is another's", p.id, p.timerIndex)
		}
	}
	for id, p := range m.requests {
		if p.work == nil || p.work.ping != id && p.work.push != id {
			return fmt.Errorf("request %d of p%d is not under way", id, p.id)
		}
	}
	for k := range m.timers {
		if k > 0 && m.timers[(k-1)/2].due > m.timers[k].due {
			return fmt.Errorf("timer %d is not in order", k)
		}
	}
	queued := 0
	for q := m.queue.first; q != nil; q = q.qnext {
		if !q.queued || q.state.Has(MarkDeleted) {
			return fmt.Errorf("p%d is in the queue", q.id)
		}
		queued++
	}
	if q, f := queued, m.Figures(); f.Queue != q || f.Pings+f.Pushes != len(m.requests) {
		return fmt.Errorf("figures %+v: %d are queued, %d requests under way", f, q, len(m.requests))
	}
	if nids != len(m.nis) || peers != m.count {
		return fmt.Errorf("%d nids, %d in the table; %d peers, counted %d", nids, len(m.nis), peers, m.count)
	}
	return nil
}
