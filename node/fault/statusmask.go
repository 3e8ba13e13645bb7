package fault

import (
	"errors"
	"math/rand/v2"
	"strings"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// StatusMask is a set of health statuses with which a drop rule makes sends fail:
// bit n is lnd.Status n, 1 to 10 (lnet-core 11.1). Several mean that each
// failure draws one.
type StatusMask uint32

// RandomStatus is every status: each failure has any of them.
const RandomStatus StatusMask = 0xffffffff

const (
	firstStatus = lnd.StatusLocalInterrupt
	lastStatus  = lnd.StatusNetworkTimeout

	// allStatuses are the bits that have a meaning of their own.
	allStatuses StatusMask = (1<<(lastStatus+1) - 1) &^ (1<<firstStatus - 1)
)

const randomText = "random"

var errStatusName = errors.New("not a health status such as local_dropped, and not " + randomText)

// StatusOf is the set of that one status; empty for lnd.StatusOK and what is
// no status.
func StatusOf(s lnd.Status) StatusMask { return 1 << s & allStatuses }

// ParseStatus reads the name of one status, "local_dropped", or "random", in
// any case (lnet-core 11.3). What it does not know is a *lnet.FieldError.
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

// draw is a random status, rounded to the nearest of the set, down before up.
// The set has at least one.
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
