package message

// Stat requests and replies (selftest 2.3.2).
//
//	24          32          48
//	+-----------+-----------+------+
//	| reply ID  | session   | kind |
//	+-----------+-----------+------+
//	24       28        44            64               100               160
//	+--------+---------+-------------+----------------+-----------------+
//	| status | session | framework   | RPC            | LNet            |
//	+--------+---------+-------------+----------------+-----------------+
const (
	offStatFramework = 44
	offStatRPC       = 64
	offStatLNet      = 100
)

// StatRequest requests the counters of a node.
type StatRequest struct {
	Header
	ReplyID uint64
	Session SessionID
	Kind    uint32 // 0; nodes ignore it
}

// Service returns ServiceStat.
func (*StatRequest) Service() Service { return ServiceStat }

// Append appends the encoded message to b.
func (m *StatRequest) Append(b []byte) []byte {
	b, v := m.begin(b, TypeStatRequest)
	v.put64(offReplyID, m.ReplyID)
	v.putSessionID(offSession, m.Session)
	v.put32(offSessionArg, m.Kind)
	return b
}

// Decode decodes b into m. It returns ErrSize, ErrMagic or ErrType if b is not a message of this type.
func (m *StatRequest) Decode(b []byte) error {
	h, v, err := expect(b, TypeStatRequest)
	if err != nil {
		return err
	}
	*m = StatRequest{
		Header: h, ReplyID: v.u64(offReplyID), Session: v.sessionID(offSession), Kind: v.u32(offSessionArg),
	}
	return nil
}

// FrameworkCounters are the counters of a node's session.
type FrameworkCounters struct {
	RunningMS      uint32 // milliseconds since the session was made, modulo 2^32
	ActiveBatches  uint32
	ZombieSessions uint32
	BRWErrors      uint32
	PingErrors     uint32
}

// RPCCounters are the counters of a node's RPCs (selftest 3).
type RPCCounters struct {
	Errors   uint32 // events with an error status
	Sent     uint32 // requests sent
	Received uint32 // requests received
	Dropped  uint32 // RPCs that this node, as server, ended without a reply
	Expired  uint32 // RPCs of this node, as client, that timed out
	BulkGet  uint64 // bytes that this node, as server, has fetched from clients
	BulkPut  uint64 // bytes that this node, as server, has sent to clients
}

// LNetCounters are the counters of the node's LNet messages, including messages that do not belong to
// selftest.
type LNetCounters struct {
	MessagesAllocated, MessagesMax                     uint32
	Errors                                             uint32
	SendCount, ReceiveCount, RouteCount, DropCount     uint32
	SendLength, ReceiveLength, RouteLength, DropLength uint64
}

// StatReply answers a StatRequest. The counters are valid only if Status is 0.
type StatReply struct {
	Header
	Status    Status
	Session   SessionID
	Framework FrameworkCounters
	RPC       RPCCounters
	LNet      LNetCounters
}

// Append appends the encoded message to b.
func (m *StatReply) Append(b []byte) []byte {
	b, v := m.begin(b, TypeStatRequest.Reply())
	v.put32(offStatus, uint32(m.Status))
	v.putSessionID(offReplySession, m.Session)

	f := &m.Framework
	v.put32s(offStatFramework, f.RunningMS, f.ActiveBatches, f.ZombieSessions, f.BRWErrors, f.PingErrors)
	r := &m.RPC
	v.put32s(offStatRPC, r.Errors, r.Sent, r.Received, r.Dropped, r.Expired)
	v.put64(offStatRPC+20, r.BulkGet)
	v.put64(offStatRPC+28, r.BulkPut)
	l := &m.LNet
	v.put32s(offStatLNet, l.MessagesAllocated, l.MessagesMax, l.Errors,
		l.SendCount, l.ReceiveCount, l.RouteCount, l.DropCount)
	v.put64(offStatLNet+28, l.SendLength)
	v.put64(offStatLNet+36, l.ReceiveLength)
	v.put64(offStatLNet+44, l.RouteLength)
	v.put64(offStatLNet+52, l.DropLength)
	return b
}

// Decode decodes b into m. It returns ErrSize, ErrMagic or ErrType if b is not a message of this type.
func (m *StatReply) Decode(b []byte) error {
	h, v, err := expect(b, TypeStatRequest.Reply())
	if err != nil {
		return err
	}
	*m = StatReply{Header: h, Status: Status(v.u32(offStatus)), Session: v.sessionID(offReplySession)}
	f := &m.Framework
	v.u32s(offStatFramework, &f.RunningMS, &f.ActiveBatches, &f.ZombieSessions, &f.BRWErrors, &f.PingErrors)
	r := &m.RPC
	v.u32s(offStatRPC, &r.Errors, &r.Sent, &r.Received, &r.Dropped, &r.Expired)
	r.BulkGet = v.u64(offStatRPC + 20)
	r.BulkPut = v.u64(offStatRPC + 28)
	l := &m.LNet
	v.u32s(offStatLNet, &l.MessagesAllocated, &l.MessagesMax, &l.Errors,
		&l.SendCount, &l.ReceiveCount, &l.RouteCount, &l.DropCount)
	l.SendLength = v.u64(offStatLNet + 28)
	l.ReceiveLength = v.u64(offStatLNet + 36)
	l.RouteLength = v.u64(offStatLNet + 44)
	l.DropLength = v.u64(offStatLNet + 52)
	return nil
}

func (v view) put32s(off int, values ...uint32) {
	for k, n := range values {
		v.put32(off+4*k, n)
	}
}

func (v view) u32s(off int, values ...*uint32) {
	for k, p := range values {
		*p = v.u32(off + 4*k)
	}
}
