package protocol

import "encoding/binary"

// Layouts of the bodies of STATS_GET, of its reply, and of the reply to TM_STOP (transport 9.2, 9.7).
//
//	STATS_GET          reply
//	0 handle u32       0 count u32        0 to 256
//	4                  4 0 u32
//	                   8 counter u64      count times, in the order of Counters
//
// Readers treat missing counters as 0 and ignore unknown ones, so that later versions of lnetd can add
// counters.
const (
	countersHead = 8
	counterSize  = 8
	maxCounters  = 256
)

// StatsGet requests the statistics of a TM, or of the whole connection.
type StatsGet struct {
	// Handle is the handle of a TM, or NoHandle for all current and past TMs of the connection.
	Handle uint32
}

// Opcode returns OpStatsGet.
func (*StatsGet) Opcode() Opcode { return OpStatsGet }

// Append implements Body. It appends the encoded body to b.
func (s *StatsGet) Append(b []byte) []byte { return binary.LittleEndian.AppendUint32(b, s.Handle) }

// Decode implements Body. It decodes b, which is the whole body.
func (s *StatsGet) Decode(b []byte) error {
	if err := checkLength("stats", b, handleSize); err != nil {
		return err
	}
	s.Handle = binary.LittleEndian.Uint32(b)
	return nil
}

// Counters are lnetd's statistics of one TM, or of all TMs of a connection.
type Counters struct {
	// Submissions is the number of submission entries that lnetd has read from the rings.
	Submissions uint64
	// Completions is the number of completion entries that lnetd has written.
	Completions uint64
	// BellWrites is the number of writes to the sockets that wake the client. BellReads is the number of
	// reads from the eventfds that wake lnetd.
	BellWrites, BellReads uint64
	// Requests is the number of control records that lnetd has received on this connection, including the
	// current one. It is the same in the statistics of a single TM.
	Requests uint64
}

// fields returns pointers to the counters, in the order in which the record contains them.
func (c *Counters) fields() [5]*uint64 {
	return [...]*uint64{&c.Submissions, &c.Completions, &c.BellWrites, &c.BellReads, &c.Requests}
}

// Append implements Body. It appends the encoded body to b.
func (c *Counters) Append(b []byte) []byte {
	counters := c.fields()
	b = binary.LittleEndian.AppendUint32(b, uint32(len(counters)))
	b = binary.LittleEndian.AppendUint32(b, 0)
	for _, v := range counters {
		b = binary.LittleEndian.AppendUint64(b, *v)
	}
	return b
}

// Decode implements Body. It decodes b, which is the whole body.
func (c *Counters) Decode(b []byte) error {
	n, err := decodeCount("counters", b, countersHead, counterSize, maxCounters)
	if err != nil {
		return err
	}
	if err := zero32("counters", b, 4); err != nil {
		return err
	}
	*c = Counters{}
	for i, v := range c.fields() {
		if i < n {
			*v = binary.LittleEndian.Uint64(b[countersHead+i*counterSize:])
		}
	}
	return nil
}
