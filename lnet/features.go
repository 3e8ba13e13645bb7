package lnet

import (
	"fmt"
	"strings"
)

// Features are the feature bits of a PingInfo (lnet-wire 7.3). A receiver ignores bits that
// it does not know.
type Features uint32

const (
	// FeatBase is obsolete. No sender has set it since 2.10.
	FeatBase Features = 0x01
	// FeatNIStatus means that entries have a status. Ping info without it is invalid.
	FeatNIStatus Features = 0x02
	// FeatRoutingDisabled means that the sender is not a router.
	FeatRoutingDisabled Features = 0x04
	// FeatMultiRail means that the sender supports peers with several NIs: its sequence
	// number is valid, and it accepts pushes.
	FeatMultiRail Features = 0x08
	// FeatDiscovery means that the sender discovers its peers.
	FeatDiscovery Features = 0x10
	// FeatLargeAddr means that entries with 16-byte addresses follow those with 4-byte
	// addresses.
	FeatLargeAddr Features = 0x20
	// FeatPrimaryLarge means that the primary NID is the first one with a 16-byte address.
	FeatPrimaryLarge Features = 0x40
	// FeatMetadata means that metadata of drivers follows.
	FeatMetadata Features = 0x80
)

// featureNames are the names of the bits, beginning with the lowest.
var featureNames = [...]string{
	"BASE", "NI_STATUS", "RTE_DISABLED", "MULTI_RAIL", "DISCOVERY", "LARGE_ADDR", "PRIMARY_LARGE", "METADATA",
}

// String returns the names of the bits, such as "NI_STATUS|MULTI_RAIL|0x100", or "0" if no
// bit is set.
func (f Features) String() string {
	if f == 0 {
		return "0"
	}
	var names []string
	for i, name := range featureNames {
		if bit := Features(1) << i; f&bit != 0 {
			names = append(names, name)
			f &^= bit
		}
	}
	if f != 0 {
		names = append(names, fmt.Sprintf("%#x", uint32(f)))
	}
	return strings.Join(names, "|")
}

// NIStatus is the state of an interface in a PingInfo (lnet-wire 7.2).
type NIStatus uint32

const (
	// StatusInvalid means that the status of the interface is unknown.
	StatusInvalid NIStatus = 0
	// StatusUp means that the interface works.
	StatusUp NIStatus = 0x15aac0de
	// StatusDown means that the interface does not work (lnet-wire 7.9).
	StatusDown NIStatus = 0xdeadface
)

// String returns "up", "down", "invalid", or the number in hexadecimal.
func (s NIStatus) String() string {
	switch s {
	case StatusUp:
		return "up"
	case StatusDown:
		return "down"
	case StatusInvalid:
		return "invalid"
	}
	return fmt.Sprintf("%#x", uint32(s))
}
