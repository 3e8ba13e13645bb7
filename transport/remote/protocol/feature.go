package protocol

import (
	"fmt"
	"strings"
)

// Features are what a connection may have beyond the version (transport 9.11).
type Features uint64

const (
	// FeatLargeSegments is reserved: segments beyond a page.
	FeatLargeSegments Features = 1 << 0
	// FeatPolling has lnetd look at submission rings for a while before it sleeps, as its
	// settings say.
	FeatPolling Features = 1 << 1
	// FeatRingGrowth is reserved: rings that grow.
	FeatRingGrowth Features = 1 << 2
	// FeatZeroCopy is reserved: transmission without a copy in the kernel.
	FeatZeroCopy Features = 1 << 3
	// FeatHugePages is reserved: areas of huge pages.
	FeatHugePages Features = 1 << 4
	// FeatPosted has lnetd write SQ posted: how far it has carried out submissions.
	FeatPosted Features = 1 << 5
	// FeatMatchBits has the reply to TM_START say which match bits those of passive buffers
	// follow. Others are refused.
	FeatMatchBits Features = 1 << 6

	// Implemented are those that an lnetd of this version may grant.
	Implemented = FeatPolling | FeatPosted | FeatMatchBits
)

var featureNames = [...]string{"LARGE_SEGMENTS", "POLLING", "RING_GROWTH", "ZERO_COPY", "HUGE_PAGES", "POSTED", "MATCH_BITS"}

// String is like "POLLING|0x100", and "0" if no bit is set.
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
		names = append(names, fmt.Sprintf("%#x", uint64(f)))
	}
	return strings.Join(names, "|")
}
