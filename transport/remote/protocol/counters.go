package protocol

import "encoding/binary"

// Layouts of the bodies of STATS_GET, of its reply, and of TM_STOP's (transport 9.2, 9.7).
//
//	STATS_GET          reply
//	0 handle u32       0 count u32        0 to 256
//	4                  4 0 u32
//	                   8 counter u64      count times, in the order of Counters
//
// A reader takes counters that are not there as 0, and skips those that it does not know,
// so that a later lnetd may have more of them.
const (
	countersHead = 8
	counterSize  = 8
	maxCounters  = 256
)

// StatsGet asks for the figures of a TM, or of the whole connection.
type StatsGet struct {
	// Handle is the TM's, or NoHandle for all TMs that the connection has, or had.
	Handle uint32
}

// Opcode is OpStatsGet.
func (*StatsGet) Opcode() Opcode { return OpStatsGet }

// Append appends the body.
func (s *StatsGet) Append(b []byte) []byte { return binary.LittleEndian.AppendUint32(b, s.Handle) }

// Decode reads the body.
func (s *StatsGet) Decode(b []byte) error {
	if err := exactly("stats", b, handleSize); err != nil {
		return err
	}
	s.Handle = binary.LittleEndian.Uint32(b)
	return nil
}

// Counters are what lnetd counts.
type Counters struct {
	// Submissions is the number of submission entries that it has consumed.
	Submissions uint64
	// Completions is the number of completion entries that it has written.
	Completions uint64
	// BellWrites is how often it has written to the socket that wakes the client, BellReads
	// how often it has read from the eventfd that wakes itself.
	BellWrites, BellReads uint64
	// Requests is the number of control records from this connection, this one included,
	// in the figures of a TM as well.
	Requests uint64
}

// inOrder are the counters as they stand in the record.
func (c *Counters) inOrder() [5]*uint64 {
	return [...]*uint64{&c.Submissions, &c.Completions, &c.BellWrites, &c.BellReads, &c.Requests}
}

// Append appends the body.
func (c *Counters) Append(b []byte) []byte {
	counters := c.inOrder()
	b = binary.LittleEndian.AppendUint32(b, uint32(len(counters)))
	b = binary.LittleEndian.AppendUint32(b, 0)
	for _, v := range counters {
		b = binary.LittleEndian.AppendUint64(b, *v)
	}
	return b
}

// Decode reads the body.
func (c *Counters) Decode(b []byte) error {
	n, err := decodeCount("counters", b, countersHead, counterSize, maxCounters)
	if err != nil {
		return err
	}
	if err := zero32("counters", b, 4); err != nil {
		return err
	}
	*c = Counters{}
	for i, v := range c.inOrder() {
		if i < n {
			*v = binary.LittleEndian.Uint64(b[countersHead+i*counterSize:])
		}
	}
	return nil
}
