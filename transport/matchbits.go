package transport

import (
	"crypto/rand"
	"encoding/binary"

	"github.com/lnetd/lnetd/lnet"
)

// MatchBits are LNet match bits (transport 6.4): the number of the TM in the top 12, a
// counter in the 52 below. Counter 0 is its receive queue, 1 to MaxCounter are its passive
// buffers, from a random one on. Cores need them, programs do not.
type MatchBits uint64

const (
	// MaxCounter is the last counter of passive buffers; 1 follows it.
	MaxCounter = 1<<tmidShift - 1

	// tmidShift is where the number of a TM begins, in match bits and in hdr_data.
	tmidShift = 52
)

// MakeMatchBits puts a number of a TM, up to MaxTMID, and a counter together.
func MakeMatchBits(tmid uint16, counter uint64) MatchBits {
	return MatchBits(tmid)<<tmidShift | MatchBits(counter&MaxCounter)
}

// RandomMatchBits returns match bits of a TM with a counter, 1 to MaxCounter, that no program
// can predict. The counters of a TM's passive buffers follow it, so that the descriptors of a TM
// that has ended name no buffer of the next one with its number (transport 6.4).
func RandomMatchBits(tmid uint16) MatchBits {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it returns no error
	return MakeMatchBits(tmid, 1+binary.NativeEndian.Uint64(b[:])%MaxCounter)
}

// TMID is the number of the TM, 0 to MaxTMID.
func (m MatchBits) TMID() uint16 { return uint16(m >> tmidShift) }

// Counter is the counter, 0 to MaxCounter.
func (m MatchBits) Counter() uint64 { return uint64(m) & MaxCounter }

// Next returns the match bits of the passive buffer that the TM makes next. Counter 1 follows
// the last one.
func (m MatchBits) Next() MatchBits {
	c := m.Counter() + 1
	if c > MaxCounter {
		c = 1
	}
	return MakeMatchBits(m.TMID(), c)
}

// HdrData is the hdr_data of a PUT that a TM sends (transport 6.5): its number in the top
// 12 bits, its portal below. It is little endian on the wire. Cores need it, programs do
// not.
type HdrData uint64

// MakeHdrData is what a TM at a sends.
func MakeHdrData(a Address) HdrData {
	return HdrData(a.TMID)<<tmidShift | HdrData(a.Portal)
}

// TMID is the number of the sending TM, 0 to MaxTMID.
func (h HdrData) TMID() uint16 { return uint16(h >> tmidShift) }

// Portal is the portal of the sending TM, as it says: 52 bits.
func (h HdrData) Portal() uint64 { return uint64(h) & MaxCounter }

// Sender is where a message with this hdr_data came from, from who the header of the PUT
// says it is. It reports false, and the zero Address, if no reply is possible: the
// message is not a TM's.
func (h HdrData) Sender(initiator lnet.ProcessID) (Address, bool) {
	if h.TMID() == 0 || !validPortal(h.Portal()) {
		return Address{}, false
	}
	return Address{NID: initiator.NID, PID: initiator.PID, Portal: uint32(h.Portal()), TMID: h.TMID()}, true
}

// validPortal tells whether a TM can be on that portal (transport 6.2).
func validPortal(p uint64) bool { return p > lnet.ReservedPortal && p < lnet.Portals }
