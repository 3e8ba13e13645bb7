package transport

// rank is where a lock stands in the order in which locks are taken (transport 3.2): those
// of lower ranks first, and of each rank one.
type rank interface{ rank() int }

// The ranks, in their order.
type (
	poolRank   struct{}
	domainRank struct{}
	tmRank     struct{}
)

func (poolRank) rank() int   { return 1 }
func (domainRank) rank() int { return 2 }
func (tmRank) rank() int     { return 3 }
