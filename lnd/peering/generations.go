package peering

// Generations is a bounded map in two parts, without a clock. When the young part is full, it replaces
// the old part, whose entries are dropped. The map therefore holds at least the last size entries, and
// at most twice as many. The zero value is empty.
type Generations[K comparable, V any] struct {
	young, old map[K]V
}

// Put adds an entry. The key must not be present. size is the capacity of the young part.
func (g *Generations[K, V]) Put(key K, v V, size int) {
	if len(g.young) >= size {
		g.old, g.young = g.young, nil
	}
	if g.young == nil {
		g.young = make(map[K]V)
	}
	g.young[key] = v
}

// Remove removes and returns an entry.
func (g *Generations[K, V]) Remove(key K) (v V, found bool) {
	for _, m := range []map[K]V{g.young, g.old} {
		if v, found = m[key]; found {
			delete(m, key)
			return v, true
		}
	}
	return v, false
}

// Len returns the number of entries.
func (g *Generations[K, V]) Len() int { return len(g.young) + len(g.old) }
