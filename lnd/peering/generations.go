package peering

// Generations is a map that keeps at least the last size entries that were added and not removed, and at most
// twice as many. New entries are added to its young part. When the young part has size entries, it becomes the
// old part, and the entries of the former old part are dropped. The zero value is empty. Generations is not
// safe for concurrent use.
type Generations[K comparable, V any] struct {
	young, old map[K]V
}

// Put adds an entry. The key must not be present. size must be the same in every call.
func (g *Generations[K, V]) Put(key K, v V, size int) {
	if len(g.young) >= size {
		g.old, g.young = g.young, nil
	}
	if g.young == nil {
		g.young = make(map[K]V)
	}
	g.young[key] = v
}

// Remove removes and returns an entry. found is false if the map has no entry with this key.
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
