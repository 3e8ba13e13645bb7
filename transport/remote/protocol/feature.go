package protocol

import (
	"fmt"
	"strings"
)

// Features are optional features of a connection (transport 9.11).
type Features uint64

const (
	// FeatLargeSegments is reserved for segments larger than a page.
	FeatLargeSegments Features = 1 << 0
	// FeatPolling makes lnetd poll the submission rings of the connection for a while before it sleeps.
	// lnetd's settings limit the time.
	FeatPolling Features = 1 << 1
	// FeatOverflow makes lnetd keep completions for which the ring has no room. Operations then reserve
	// nothing in the completion ring.
	FeatOverflow Features = 1 << 2
	// FeatZeroCopy is reserved for transmission without a copy in the kernel.
	FeatZeroCopy Features = 1 << 3
	// FeatHugePages is reserved for areas of huge pages.
	FeatHugePages Features = 1 << 4
	// FeatPosted makes lnetd write "SQ posted" into the ring file: the position up to which it has carried
	// out submissions.
	FeatPosted Features = 1 << 5
	// FeatMatchBits makes lnetd choose the match bits of passive buffers: the reply to TM_START contains
	// match bits, and the passive buffers use those that follow. lnetd refuses any others.
	FeatMatchBits Features = 1 << 6
	// FeatFutex lets both sides sleep on the flags of a ring file, "SQ sleeping" and "CQ sleeping", with a futex.
	FeatFutex Features = 1 << 7

	// Implemented is the set of features that this version of lnetd may grant.
	Implemented = FeatPolling | FeatOverflow | FeatPosted | FeatMatchBits | FeatFutex
)

var featureNames = [...]string{"LARGE_SEGMENTS", "POLLING", "OVERFLOW", "ZERO_COPY", "HUGE_PAGES", "POSTED", "MATCH_BITS", "FUTEX"}

// String returns a text such as "POLLING|0x100", or "0" if no bit is set.
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
