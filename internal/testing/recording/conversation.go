package recording

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// Side is one of the two ends of a connection.
type Side uint8

// Sides: Active opened the connection, Passive accepted it.
const (
	Active Side = iota
	Passive
)

// Other returns the other side.
func (s Side) Other() Side { return 1 - s }

func (s Side) String() string {
	if s == Active {
		return "active"
	}
	return "passive"
}

// End is the way in which a side has ended its stream.
type End uint8

// The ends of a stream. EndOpen means that the stream was still open when the recording ended.
const (
	EndOpen End = iota
	EndFIN
	EndRST
)

func (e End) String() string {
	switch e {
	case EndFIN:
		return "FIN"
	case EndRST:
		return "RST"
	}
	return "open"
}

// Chunk is the data that one packet added to a stream.
type Chunk struct {
	At    time.Time
	From  Side
	Bytes []byte
}

// Conversation is one TCP connection.
type Conversation struct {
	// Addrs are the addresses of the two sides.
	Addrs [2]netip.AddrPort
	// Opened is the time of the SYN.
	Opened time.Time
	// Chunks are the data of both directions in the order of the recording. Retransmitted data is left out.
	Chunks []Chunk
	// Ends is the way in which each side has ended its stream, and Ended the time.
	Ends  [2]End
	Ended [2]time.Time
}

// Stream returns all bytes that a side has sent.
func (c *Conversation) Stream(from Side) []byte {
	var b []byte
	for _, k := range c.Chunks {
		if k.From == from {
			b = append(b, k.Bytes...)
		}
	}
	return b
}

// TimedUnit is a Unit with its sender and its times.
type TimedUnit struct {
	Unit
	From Side
	// Begin and End are the times of the packets with the first and with the last byte of the unit.
	Begin, End time.Time

	lastChunk int
}

// Units parses both streams and returns the units of both, in the order in which their last bytes were
// recorded. If a stream is malformed, Units returns the units before that place and an error that names
// the stream.
func (c *Conversation) Units() ([]TimedUnit, error) {
	var (
		units []TimedUnit
		first error
	)
	for _, side := range []Side{Active, Passive} {
		parsed, err := Parse(c.Stream(side))
		if err != nil && first == nil {
			first = fmt.Errorf("%v side of %v to %v: %w", side, c.Addrs[Active], c.Addrs[Passive], err)
		}
		units = append(units, c.withTimes(side, parsed)...)
	}
	slices.SortStableFunc(units, func(a, b TimedUnit) int { return a.lastChunk - b.lastChunk })
	return units, first
}

// withTimes returns the units of one side with their times. The units must be sorted by offset.
func (c *Conversation) withTimes(from Side, parsed []Unit) []TimedUnit {
	units := make([]TimedUnit, 0, len(parsed))
	chunk, end := -1, 0 // the current chunk, and the offset of its end in the stream
	chunkOf := func(offset int) int {
		for offset >= end {
			chunk++
			if c.Chunks[chunk].From == from {
				end += len(c.Chunks[chunk].Bytes)
			}
		}
		return chunk
	}
	for _, u := range parsed {
		t := TimedUnit{Unit: u, From: from}
		t.Begin = c.Chunks[chunkOf(u.Offset)].At
		t.lastChunk = chunkOf(u.Offset + len(u.Raw) - 1)
		t.End = c.Chunks[t.lastChunk].At
		units = append(units, t)
	}
	return units
}

var errGap = errors.New("bytes were not recorded")

// addrPair identifies a connection by its two addresses. It is the same for the segments of both
// directions.
type addrPair struct{ low, high netip.AddrPort }

func pairOf(s segment) addrPair {
	if s.from.Compare(s.to) < 0 {
		return addrPair{s.from, s.to}
	}
	return addrPair{s.to, s.from}
}

// flow is a conversation that is being read.
type flow struct {
	conversation *Conversation
	sides        [2]assembler
	packets      int
	startMissing bool // the connection was opened before the recording began
}

func newFlow(s segment, at time.Time) *flow {
	c := &Conversation{Addrs: [2]netip.AddrPort{Active: s.from, Passive: s.to}, Opened: at}
	return &flow{conversation: c, startMissing: !s.syn || s.ack}
}

// isRestart reports whether s opens another connection between the same addresses: s is a SYN, and not a
// retransmission of the SYN of this connection.
func (f *flow) isRestart(s segment) bool {
	return s.syn && !s.ack &&
		(f.startMissing || s.from != f.conversation.Addrs[Active] || s.seq+1 != f.sides[Active].first)
}

func (f *flow) add(s segment, at time.Time) {
	f.packets++
	c := f.conversation
	side := Active
	if s.from == c.Addrs[Passive] {
		side = Passive
	}
	a := &f.sides[side]
	if s.syn {
		a.start(s.seq)
		s.seq++
	}
	if !a.started && len(s.payload) > 0 {
		f.startMissing = true
	}
	if f.startMissing {
		return
	}
	if b := a.add(s); len(b) > 0 {
		c.Chunks = append(c.Chunks, Chunk{At: at, From: side, Bytes: bytes.Clone(b)})
	}
	if c.Ends[side] == EndOpen && a.end != EndOpen {
		c.Ended[side] = at
	}
	c.Ends[side] = a.end
}

// checkComplete returns an error if bytes are missing within one of the two streams.
func (f *flow) checkComplete() error {
	for side := range f.sides {
		if f.sides[side].missing() {
			return fmt.Errorf("%v side of %v to %v: %w", Side(side),
				f.conversation.Addrs[Active], f.conversation.Addrs[Passive], errGap)
		}
	}
	return nil
}
