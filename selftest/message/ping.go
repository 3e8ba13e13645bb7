package message

// Ping requests and replies (selftest 2.3, 6).
//
//	24          32      36    40        48
//	+-----------+-------+-----+---------+-------------+
//	| reply ID  | magic | seq | seconds | nanoseconds |
//	+-----------+-------+-----+---------+-------------+
//	24       28      32
//	+--------+-------+-----+
//	| status | magic | seq |
//	+--------+-------+-----+
const (
	offPingMagic       = 32
	offPingSeq         = 36
	offPingSeconds     = 40
	offPingNanoseconds = 48

	offPingReplyMagic = 28
	offPingReplySeq   = 32
)

// PingMagic is the value of Magic in all ping requests and replies.
const PingMagic = 0xbabeface

// PingRequest requests a PingReply with the same magic and sequence number.
type PingRequest struct {
	Header
	ReplyID     uint64
	Magic       uint32
	Seq         uint32
	Seconds     int64 // time when it was sent, since 1970
	Nanoseconds int64
}

// Service returns ServicePing.
func (*PingRequest) Service() Service { return ServicePing }

// Append appends the encoded message to b.
func (m *PingRequest) Append(b []byte) []byte {
	b, v := m.begin(b, TypePingRequest)
	v.put64(offReplyID, m.ReplyID)
	v.put32(offPingMagic, m.Magic)
	v.put32(offPingSeq, m.Seq)
	v.put64(offPingSeconds, uint64(m.Seconds))
	v.put64(offPingNanoseconds, uint64(m.Nanoseconds))
	return b
}

// Decode decodes b into m. It returns ErrSize, ErrMagic or ErrType if b is not a message of this type.
func (m *PingRequest) Decode(b []byte) error {
	h, v, err := expect(b, TypePingRequest)
	if err != nil {
		return err
	}
	*m = PingRequest{
		Header: h, ReplyID: v.u64(offReplyID), Magic: v.u32(offPingMagic), Seq: v.u32(offPingSeq),
		Seconds: int64(v.u64(offPingSeconds)), Nanoseconds: int64(v.u64(offPingNanoseconds)),
	}
	return nil
}

// PingReply answers a PingRequest.
type PingReply struct {
	Header
	Status Status
	Magic  uint32
	Seq    uint32
}

// Append appends the encoded message to b.
func (m *PingReply) Append(b []byte) []byte {
	b, v := m.begin(b, TypePingRequest.Reply())
	v.put32(offStatus, uint32(m.Status))
	v.put32(offPingReplyMagic, m.Magic)
	v.put32(offPingReplySeq, m.Seq)
	return b
}

// Decode decodes b into m. It returns ErrSize, ErrMagic or ErrType if b is not a message of this type.
func (m *PingReply) Decode(b []byte) error {
	h, v, err := expect(b, TypePingRequest.Reply())
	if err != nil {
		return err
	}
	*m = PingReply{
		Header: h, Status: Status(v.u32(offStatus)), Magic: v.u32(offPingReplyMagic), Seq: v.u32(offPingReplySeq),
	}
	return nil
}
