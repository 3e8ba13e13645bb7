package transport

import (
	"crypto/rand"
	"encoding/binary"

	"github.com/lnetd/lnetd/lnet"
)

// MatchBits are LNet match bits as TMs use them (transport 6.4): the TM number in the upper 12 bits, and a
// counter in the lower 52. Counter 0 is the receive queue. Counters 1 to MaxCounter are passive buffers; the
// first passive buffer of a TM has a random counter. Only Cores need this type.
type MatchBits uint64

const (
	// MaxCounter is the largest counter of a passive buffer. After it, the counter continues with 1.
	MaxCounter = 1<<tmidShift - 1

	// tmidShift is the position of the lowest bit of the TM number in match bits and in hdr_data.
	tmidShift = 52
)

// MakeMatchBits returns the match bits of a TM number, up to MaxTMID, and a counter, up to MaxCounter.
func MakeMatchBits(tmid uint16, counter uint64) MatchBits {
	return MatchBits(tmid)<<tmidShift | MatchBits(counter&MaxCounter)
}

// RandomMatchBits returns match bits of a TM with a random counter, 1 to MaxCounter. Programs cannot predict
// it. The TM's passive buffers use the counters that follow. So descriptors of a TM that has ended do not
// match buffers of the next TM with the same number (transport 6.4).
func RandomMatchBits(tmid uint16) MatchBits {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never returns an error
	return MakeMatchBits(tmid, 1+binary.NativeEndian.Uint64(b[:])%MaxCounter)
}

// TMID returns the TM number, 0 to MaxTMID.
func (m MatchBits) TMID() uint16 { return uint16(m >> tmidShift) }

// Counter returns the counter, 0 to MaxCounter.
func (m MatchBits) Counter() uint64 { return uint64(m) & MaxCounter }

// Next returns the match bits of the TM's next passive buffer. Counter 1 follows MaxCounter.
func (m MatchBits) Next() MatchBits {
	c := m.Counter() + 1
	if c > MaxCounter {
		c = 1
	}
	return MakeMatchBits(m.TMID(), c)
}

// HdrData is the hdr_data of a PUT sent by a TM (transport 6.5): the number of the sending TM in the upper 12
// bits, and the portal of that TM in the lower 52. It is little endian on the wire. Only Cores need this
// type.
type HdrData uint64

// MakeHdrData returns the hdr_data of messages from a TM at address a.
func MakeHdrData(a Address) HdrData {
	return HdrData(a.TMID)<<tmidShift | HdrData(a.Portal)
}

// TMID returns the number of the sending TM, 0 to MaxTMID.
func (h HdrData) TMID() uint16 { return uint16(h >> tmidShift) }

// Portal returns the portal of the sending TM: all 52 bits, not validated.
func (h HdrData) Portal() uint64 { return uint64(h) & MaxCounter }

// Sender returns the address of the sending TM, given the NID and PID of the PUT's initiator. It returns the
// zero Address and false if the message was not sent by a TM, so that no answer is possible.
func (h HdrData) Sender(initiator lnet.ProcessID) (Address, bool) {
	if h.TMID() == 0 || !validPortal(h.Portal()) {
		return Address{}, false
	}
	return Address{NID: initiator.NID, PID: initiator.PID, Portal: uint32(h.Portal()), TMID: h.TMID()}, true
}

// validPortal reports whether a TM can use portal p (transport 6.2).
func validPortal(p uint64) bool { return p > lnet.ReservedPortal && p < lnet.Portals }
