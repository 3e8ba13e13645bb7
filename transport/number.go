package transport

import "syscall"

// TMIDs chooses numbers for TMs whose address leaves them open (transport 6.3): First to Last,
// 1 to MaxTMID, from Last down and in a circle. So a number that is free again is chosen as
// late as possible, since peers may still have descriptors of the TM that had it. The zero TMIDs
// are those of a portal: the upper half, where few are configured, before the lower one. It is
// not safe for concurrent use. Cores need it, programs do not.
type TMIDs struct {
	First, Last uint16
	// Floor is the lowest number that is chosen when all of First to Last are in use; 0: none.
	Floor uint16

	turn uint16 // how far below Last the next choice begins
}

// Choose returns the first number that try takes. It asks for each at most once, and ends when
// try returns an error. EADDRNOTAVAIL: try has taken none.
func (c *TMIDs) Choose(try func(id uint16) (taken bool, err error)) (uint16, error) {
	if c.Last == 0 {
		c.First, c.Last, c.Floor = (MaxTMID+1)/2, MaxTMID, 1
	}
	n := c.Last - c.First + 1
	for range n {
		id := c.Last - c.turn
		c.turn = (c.turn + 1) % n
		if taken, err := try(id); taken || err != nil {
			return id, err
		}
	}
	for id := c.First - 1; c.Floor > 0 && id >= c.Floor; id-- {
		if taken, err := try(id); taken || err != nil {
			return id, err
		}
	}
	return 0, syscall.EADDRNOTAVAIL
}
