package transport

import "syscall"

// TMIDs assigns numbers to TMs that request a dynamic one (transport 6.3): First to Last, within 1 to
// MaxTMID, from Last downwards and then from Last again. So a released number is reused as late as
// possible, because peers may still have descriptors of its previous TM. The zero TMIDs are the numbers of
// one portal: the upper half first, where few TMs have configured numbers, then the lower half. TMIDs are
// not safe for concurrent use. Only Cores need them.
type TMIDs struct {
	First, Last uint16
	// Floor is the lowest number assigned when all of First to Last are in use, or 0 for no such numbers.
	Floor uint16

	offset uint16 // distance below Last at which the next choice begins
}

// Choose returns the first number for which try returns true. It tries each number at most once, and stops
// when try returns an error. It returns EADDRNOTAVAIL if try accepts no number.
func (c *TMIDs) Choose(try func(id uint16) (taken bool, err error)) (uint16, error) {
	if c.Last == 0 {
		c.First, c.Last, c.Floor = (MaxTMID+1)/2, MaxTMID, 1
	}
	n := c.Last - c.First + 1
	for range n {
		id := c.Last - c.offset
		c.offset = (c.offset + 1) % n
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
