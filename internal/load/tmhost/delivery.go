package tmhost

import (
	"fmt"
	"slices"
)

// Delivery is how the events of a transfer machine are delivered to the program.
type Delivery uint8

// The ways of delivery.
const (
	// Async: a goroutine of the transfer machine calls the callbacks.
	Async Delivery = iota
	// Sync: the loop calls the callbacks. It sleeps while there are no events and no posted work (transport
	// 3.14).
	Sync
	// Poll: the loop calls the callbacks. It polls for events, and sleeps only after a millisecond without
	// any. Under load this occupies a processor. With a single processor, Poll is the same as Sync.
	Poll
)

var deliveryNames = []string{"async", "sync", "poll"}

// String returns the name of the delivery.
func (d Delivery) String() string {
	if int(d) >= len(deliveryNames) {
		return fmt.Sprintf("delivery %d", uint8(d))
	}
	return deliveryNames[d]
}

// ParseDelivery parses the name of a delivery.
func ParseDelivery(s string) (Delivery, error) {
	k := slices.Index(deliveryNames, s)
	if k < 0 {
		return 0, fmt.Errorf("delivery %q is not async, sync or poll", s)
	}
	return Delivery(k), nil
}
