package transport

import "syscall"

// TMIDs assigns numbers to TMs that request a dynamic number (transport 6.3). It assigns the numbers First to
// Last, which must be within 1 to MaxTMID, in descending order, and after First it begins at Last again. So a
// released number is reused as late as possible, because peers may still have descriptors of the previous TM
// with this number.
//
// The zero TMIDs assigns all numbers of a portal: first the upper half, where few TMs have configured
// numbers, then the lower half. TMIDs are not safe for concurrent use. Only Cores need them.
type TMIDs struct {
	First, Last uint16
	// Floor, if not 0, allows the numbers from First-1 down to Floor when all of First to Last are in use.
	Floor uint16

	offset uint16 // the next call of Choose begins at Last-offset
}

// Choose calls try with one number after another until try takes one, and returns this number. try reports
// whether it has taken the number. Choose tries each number at most once. If try returns an error, Choose
// returns the error. If try takes no number, Choose returns EADDRNOTAVAIL.
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
