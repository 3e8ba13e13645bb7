package tmhost

import (
	"fmt"
	"slices"
)

// Delivery is how the events of a transfer machine come to the program.
type Delivery uint8

// The ways of delivery.
const (
	// Async: the machine's worker calls callbacks.
	Async Delivery = iota
	// Sync: the loop does, and sleeps while there is nothing to do (transport 3.14).
	Sync
	// Poll: the loop does, and sleeps only when nothing has come for a while: under load it
	// costs a processor. Where there is one alone it is Sync.
	Poll
)

var deliveryNames = []string{"async", "sync", "poll"}

// String is its name.
func (d Delivery) String() string {
	if int(d) >= len(deliveryNames) {
		return fmt.Sprintf("delivery %d", uint8(d))
	}
	return deliveryNames[d]
}

// ParseDelivery reads the name of one.
func ParseDelivery(s string) (Delivery, error) {
	k := slices.Index(deliveryNames, s)
	if k < 0 {
		return 0, fmt.Errorf("delivery %q is none of async, sync, poll", s)
	}
	return Delivery(k), nil
}
