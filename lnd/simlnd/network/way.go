package network

import "net/netip"

// Way is the path in one direction between two addresses.
type Way struct{ From, To netip.Addr }

// Back returns the opposite way.
func (w Way) Back() Way { return Way{w.To, w.From} }

// Direction is one direction between two places, or both directions.
type Direction uint8

// Directions.
const (
	Both     Direction = iota
	Forward            // from the first place to the second
	Backward           // the opposite direction
)

// Forward reports whether d includes Forward.
func (d Direction) Forward() bool { return d != Backward }

// Backward reports whether d includes Backward.
func (d Direction) Backward() bool { return d != Forward }

// Ways returns all ways between an address of a and an address of b, in the direction d.
func Ways(a, b []netip.Addr, d Direction) (ways []Way) {
	for _, x := range a {
		for _, y := range b {
			if d.Forward() {
				ways = append(ways, Way{x, y})
			}
			if d.Backward() {
				ways = append(ways, Way{y, x})
			}
		}
	}
	return ways
}

// SetLink sets the properties of the links on the given ways.
func (n *Network[L]) SetLink(ways []Way, l L) {
	for _, w := range ways {
		n.links[w] = l
	}
}

// Link returns the properties of the link on the way w.
func (n *Network[L]) Link(w Way) L {
	if l, ok := n.links[w]; ok {
		return l
	}
	return n.link
}

// Partition makes everything that is sent on the given ways disappear, until Heal has been called as often as
// Partition.
func (n *Network[L]) Partition(ways []Way) {
	n.counters.partitions.Add(1)
	for _, w := range ways {
		n.cuts[w]++
	}
}

// Heal ends a Partition of the same ways.
func (n *Network[L]) Heal(ways []Way) {
	for _, w := range ways {
		n.cuts[w] = max(n.cuts[w]-1, 0)
	}
}

// Open reports whether data that is sent on the way w arrives: the ports of both ends work, and no Partition is
// in effect.
func (n *Network[L]) Open(w Way) bool {
	return n.owners[w.From].Works() && n.owners[w.To].Works() && n.cuts[w] == 0
}
