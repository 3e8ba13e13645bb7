package transport

// rank is the position of a lock in the locking order (transport 3.2). A goroutine acquires locks of lower
// ranks first, and holds at most one lock of each rank.
type rank interface{ rank() int }

// The ranks, in locking order.
type (
	poolRank   struct{}
	domainRank struct{}
	tmRank     struct{}
)

func (poolRank) rank() int   { return 1 }
func (domainRank) rank() int { return 2 }
func (tmRank) rank() int     { return 3 }
