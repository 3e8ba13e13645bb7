package fault

import (
	"errors"
	"math/rand/v2"
	"strings"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// StatusMask is a set of health statuses with which a drop rule makes sends fail. Bit n
// stands for lnd.Status n, 1 to 10 (lnet-core 11.1). If several bits are set, the status
// of each failed send is chosen at random.
type StatusMask uint32

// RandomStatus is the set of all statuses.
const RandomStatus StatusMask = 0xffffffff

const (
	firstStatus = lnd.StatusLocalInterrupt
	lastStatus  = lnd.StatusNetworkTimeout

	// allStatuses are the bits that stand for a status.
	allStatuses StatusMask = (1<<(lastStatus+1) - 1) &^ (1<<firstStatus - 1)
)

const randomText = "random"

var errStatusName = errors.New("neither " + randomText + " nor a health status such as local_dropped")

// StatusOf returns the set that holds only s. It is empty if s is lnd.StatusOK or not a
// valid status.
func StatusOf(s lnd.Status) StatusMask { return 1 << s & allStatuses }

// ParseStatus parses "random" or the name of one status, such as "local_dropped",
// ignoring case (lnet-core 11.3). It returns a *lnet.FieldError if the name is unknown.
func ParseStatus(s string) (StatusMask, error) {
	if strings.EqualFold(s, randomText) {
		return RandomStatus, nil
	}
	for v := firstStatus; v <= lastStatus; v++ {
		if strings.EqualFold(s, strings.ReplaceAll(v.String(), " ", "_")) {
			return StatusOf(v), nil
		}
	}
	return 0, &lnet.FieldError{What: "health status", Value: s, Err: errStatusName}
}

// draw chooses one of the statuses in the set. It draws a random number from the range of
// all statuses, and takes the nearest status in the set, the lower one if two are equally
// near. The set must not be empty.
func (m StatusMask) draw(random *rand.Rand) lnd.Status {
	drawn := int(firstStatus) + random.IntN(int(lastStatus-firstStatus)+1)
	m &= allStatuses
	for distance := 0; ; distance++ {
		if below := drawn - distance; below > 0 && m&(1<<below) != 0 {
			return lnd.Status(below)
		}
		if above := drawn + distance; m&(1<<above) != 0 {
			return lnd.Status(above)
		}
	}
}
