package selection

// niCriteria are the values by which local NIs are compared (selection 5.2).
type niCriteria struct {
	ni       *NI
	fatal    bool
	trouble  Trouble
	health   int32
	priority uint32
	affinity uint32
	distance uint32
	credits  int64
	turn     uint64
}

func (f *niCriteria) read(c *chooser, i *NI, to combinedTrouble) {
	f.ni, f.fatal, f.health, f.priority = i, i.Fatal.Load(), i.Health.Load(), i.priority.get()
	f.trouble = to.onPath(i)
	f.distance, f.credits, f.turn = c.v.Distances.Between(c.r.CPT, i.CPT), i.Credits.Load(), i.turn.Load()
	if c.r.Affinity != nil {
		f.affinity = c.r.Affinity(i)
	} else {
		f.distance = max(f.distance, c.v.NUMARange)
	}
}

// better reports whether f is better than g, and which criterion decides that.
func (f *niCriteria) better(g *niCriteria) (bool, Criterion) {
	switch {
	case f.fatal != g.fatal:
		return g.fatal, ByFatal
	case f.trouble != g.trouble:
		return f.trouble < g.trouble, ByNITrouble
	case f.health != g.health:
		return f.health > g.health, ByNIHealth
	case f.priority != g.priority:
		return f.priority < g.priority, ByNIPriority
	case f.affinity != g.affinity:
		return f.affinity < g.affinity, ByAffinity
	case f.distance != g.distance:
		return f.distance < g.distance, ByDistance
	case f.credits != g.credits:
		return f.credits > g.credits, ByNICredits
	case f.turn != g.turn:
		return f.turn < g.turn, ByNITurn
	}
	return false, ByOrder
}

// bestNI chooses the best of the NIs of the local net n. to holds the troubles of the peer
// NIs to which the message may be sent. Every NI is a candidate, even if its link is down.
func (c *chooser) bestNI(n *Net, to combinedTrouble) *NI {
	if len(n.NIs) == 1 && c.t == nil {
		return n.NIs[0]
	}
	var best, f niCriteria
	for _, i := range n.NIs {
		f.read(c, i, to)
		if c.t != nil {
			c.t.nis = append(c.t.nis, f)
		}
		if best.ni == nil {
			best = f
		} else if better, _ := f.better(&best); better {
			best = f
		}
	}
	if c.t != nil {
		c.t.endNIs()
	}
	return best.ni
}
