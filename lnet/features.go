package lnet

import (
	"fmt"
	"strings"
)

// Features are the feature bits of a PingInfo (lnet-wire 7.3). Bits that a
// receiver does not know mean nothing to it.
type Features uint32

const (
	// FeatBase is set by no sender since 2.10.
	FeatBase Features = 0x01
	// FeatNIStatus says that entries carry a status. It is mandatory.
	FeatNIStatus Features = 0x02
	// FeatRoutingDisabled says that the sender is no router.
	FeatRoutingDisabled Features = 0x04
	// FeatMultiRail says that the sender knows peers with several NIs: the
	// sequence number is one, and pushes are welcome.
	FeatMultiRail Features = 0x08
	// FeatDiscovery says that the sender discovers its peers by itself.
	FeatDiscovery Features = 0x10
	// FeatLargeAddr says that large entries follow the small ones.
	FeatLargeAddr Features = 0x20
	// FeatPrimaryLarge says that the first large entry is the primary NID.
	FeatPrimaryLarge Features = 0x40
	// FeatMetadata says that metadata of drivers follows.
	FeatMetadata Features = 0x80
)

// featureNames are the names of the bits from the lowest on.
var featureNames = [...]string{
	"BASE", "NI_STATUS", "RTE_DISABLED", "MULTI_RAIL", "DISCOVERY", "LARGE_ADDR", "PRIMARY_LARGE", "METADATA",
}

// String is like "NI_STATUS|MULTI_RAIL|0x100", and "0" if no bit is set.
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
	// StatusInvalid says nothing.
	StatusInvalid NIStatus = 0
	// StatusUp says that the interface works.
	StatusUp NIStatus = 0x15aac0de
	// StatusDown says that it does not (lnet-wire 7.9).
	StatusDown NIStatus = 0xdeadface
)

// String is "up", "down", "invalid", or the number in hexadecimal.
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
