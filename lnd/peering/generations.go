package peering

// Generations are a memory in two parts, without a clock: when the young one is full the
// old one is given up and the young one is the old one. So at least the last entries are
// there, as many as the young part holds, and at most twice as many. The zero value is empty.
type Generations[K comparable, V any] struct {
	young, old map[K]V
}

// Put adds an entry, which is not there. The young part holds size.
func (g *Generations[K, V]) Put(key K, v V, size int) {
	if len(g.young) >= size {
		g.old, g.young = g.young, nil
	}
	if g.young == nil {
		g.young = make(map[K]V)
	}
	g.young[key] = v
}

// Take takes an entry out.
func (g *Generations[K, V]) Take(key K) (v V, found bool) {
	for _, m := range []map[K]V{g.young, g.old} {
		if v, found = m[key]; found {
			delete(m, key)
			return v, true
		}
	}
	return v, false
}

// Len is how many entries there are.
func (g *Generations[K, V]) Len() int { return len(g.young) + len(g.old) }
