package message

// Layout of requests and replies about sessions (selftest 2.3). In requests:
//
//	24          32          48
//	+-----------+-----------+----------------------------------+
//	| reply ID  | session   | force 4, name 32   make session  |
//	|           |           | group 32           join          |
//	|           |           | flags 4            debug         |
//	|           |           | -                  remove        |
//	+-----------+-----------+----------------------------------+
//
// In replies:
//
//	24       28        44        48
//	+--------+---------+---------+---------------------+
//	| status | session | timeout | name 32             | make session, join
//	|        |         | timeout | batches 4, name 32  | debug
//	|        |         | -                             | remove
//	+--------+---------+---------+---------------------+
const (
	offSession      = 32 // of requests
	offSessionArg   = 48
	offSessionName  = 52
	offJoinGroup    = 48
	offReplySession = 28
	offReplyTimeout = 44
	offReplyName    = 48
	offDebugBatches = 48
	offDebugName    = 52
)

// MakeSessionRequest requests a node to join a session.
type MakeSessionRequest struct {
	Header
	ReplyID uint64
	Session SessionID
	Force   bool // end the session of another console that the node is in
	Name    Name
}

// Service returns ServiceMakeSession.
func (*MakeSessionRequest) Service() Service { return ServiceMakeSession }

// Append appends the encoded message to b.
func (m *MakeSessionRequest) Append(b []byte) []byte {
	b, v := m.begin(b, TypeMakeSessionRequest)
	v.put64(offReplyID, m.ReplyID)
	v.putSessionID(offSession, m.Session)
	if m.Force {
		v.put32(offSessionArg, 1)
	}
	v.putName(offSessionName, m.Name)
	return b
}

// Decode decodes b into m. It returns ErrSize, ErrMagic or ErrType if b is not a message of this type.
func (m *MakeSessionRequest) Decode(b []byte) error {
	h, v, err := expect(b, TypeMakeSessionRequest)
	if err != nil {
		return err
	}
	*m = MakeSessionRequest{
		Header: h, ReplyID: v.u64(offReplyID), Session: v.sessionID(offSession),
		Force: v.u32(offSessionArg) != 0, Name: v.name(offSessionName),
	}
	return nil
}

// MakeSessionReply answers a MakeSessionRequest. selftest 4.4 defines when Timeout and Name are set.
type MakeSessionReply struct {
	Header
	Status  Status
	Session SessionID
	Timeout uint32 // seconds
	Name    Name
}

// Append appends the encoded message to b.
func (m *MakeSessionReply) Append(b []byte) []byte {
	b, v := m.begin(b, TypeMakeSessionRequest.Reply())
	v.put32(offStatus, uint32(m.Status))
	v.putSessionID(offReplySession, m.Session)
	v.put32(offReplyTimeout, m.Timeout)
	v.putName(offReplyName, m.Name)
	return b
}

// Decode decodes b into m. It returns ErrSize, ErrMagic or ErrType if b is not a message of this type.
func (m *MakeSessionReply) Decode(b []byte) error {
	h, v, err := expect(b, TypeMakeSessionRequest.Reply())
	if err != nil {
		return err
	}
	*m = MakeSessionReply{
		Header: h, Status: Status(v.u32(offStatus)), Session: v.sessionID(offReplySession),
		Timeout: v.u32(offReplyTimeout), Name: v.name(offReplyName),
	}
	return nil
}

// RemoveSessionRequest removes one reference to a session from a node. Removing the last reference ends the
// session on the node.
type RemoveSessionRequest struct {
	Header
	ReplyID uint64
	Session SessionID
}

// Service returns ServiceRemoveSession.
func (*RemoveSessionRequest) Service() Service { return ServiceRemoveSession }

// Append appends the encoded message to b.
func (m *RemoveSessionRequest) Append(b []byte) []byte {
	b, v := m.begin(b, TypeRemoveSessionRequest)
	v.put64(offReplyID, m.ReplyID)
	v.putSessionID(offSession, m.Session)
	return b
}

// Decode decodes b into m. It returns ErrSize, ErrMagic or ErrType if b is not a message of this type.
func (m *RemoveSessionRequest) Decode(b []byte) error {
	h, v, err := expect(b, TypeRemoveSessionRequest)
	if err != nil {
		return err
	}
	*m = RemoveSessionRequest{Header: h, ReplyID: v.u64(offReplyID), Session: v.sessionID(offSession)}
	return nil
}

// RemoveSessionReply answers a RemoveSessionRequest.
type RemoveSessionReply struct {
	Header
	Status  Status
	Session SessionID
}

// Append appends the encoded message to b.
func (m *RemoveSessionReply) Append(b []byte) []byte {
	b, v := m.begin(b, TypeRemoveSessionRequest.Reply())
	v.put32(offStatus, uint32(m.Status))
	v.putSessionID(offReplySession, m.Session)
	return b
}

// Decode decodes b into m. It returns ErrSize, ErrMagic or ErrType if b is not a message of this type.
func (m *RemoveSessionReply) Decode(b []byte) error {
	h, v, err := expect(b, TypeRemoveSessionRequest.Reply())
	if err != nil {
		return err
	}
	*m = RemoveSessionReply{Header: h, Status: Status(v.u32(offStatus)), Session: v.sessionID(offReplySession)}
	return nil
}

// DebugRequest requests information about the session that a node is in. Like every framework request, it
// keeps the session alive.
type DebugRequest struct {
	Header
	ReplyID uint64
	Session SessionID
	Flags   uint32
}

// Service returns ServiceDebug.
func (*DebugRequest) Service() Service { return ServiceDebug }

// Append appends the encoded message to b.
func (m *DebugRequest) Append(b []byte) []byte {
	b, v := m.begin(b, TypeDebugRequest)
	v.put64(offReplyID, m.ReplyID)
	v.putSessionID(offSession, m.Session)
	v.put32(offSessionArg, m.Flags)
	return b
}

// Decode decodes b into m. It returns ErrSize, ErrMagic or ErrType if b is not a message of this type.
func (m *DebugRequest) Decode(b []byte) error {
	h, v, err := expect(b, TypeDebugRequest)
	if err != nil {
		return err
	}
	*m = DebugRequest{
		Header: h, ReplyID: v.u64(offReplyID), Session: v.sessionID(offSession), Flags: v.u32(offSessionArg),
	}
	return nil
}

// DebugReply answers a DebugRequest. Nodes set Batches to 0.
type DebugReply struct {
	Header
	Status  Status
	Session SessionID
	Timeout uint32 // seconds
	Batches uint32
	Name    Name
}

// Append appends the encoded message to b.
func (m *DebugReply) Append(b []byte) []byte {
	b, v := m.begin(b, TypeDebugRequest.Reply())
	v.put32(offStatus, uint32(m.Status))
	v.putSessionID(offReplySession, m.Session)
	v.put32(offReplyTimeout, m.Timeout)
	v.put32(offDebugBatches, m.Batches)
	v.putName(offDebugName, m.Name)
	return b
}

// Decode decodes b into m. It returns ErrSize, ErrMagic or ErrType if b is not a message of this type.
func (m *DebugReply) Decode(b []byte) error {
	h, v, err := expect(b, TypeDebugRequest.Reply())
	if err != nil {
		return err
	}
	*m = DebugReply{
		Header: h, Status: Status(v.u32(offStatus)), Session: v.sessionID(offReplySession),
		Timeout: v.u32(offReplyTimeout), Batches: v.u32(offDebugBatches), Name: v.name(offDebugName),
	}
	return nil
}

// JoinRequest requests a console to add the sender to a group.
type JoinRequest struct {
	Header
	ReplyID uint64
	Session SessionID
	Group   Name
}

// Service returns ServiceJoin.
func (*JoinRequest) Service() Service { return ServiceJoin }

// Append appends the encoded message to b.
func (m *JoinRequest) Append(b []byte) []byte {
	b, v := m.begin(b, TypeJoinRequest)
	v.put64(offReplyID, m.ReplyID)
	v.putSessionID(offSession, m.Session)
	v.putName(offJoinGroup, m.Group)
	return b
}

// Decode decodes b into m. It returns ErrSize, ErrMagic or ErrType if b is not a message of this type.
func (m *JoinRequest) Decode(b []byte) error {
	h, v, err := expect(b, TypeJoinRequest)
	if err != nil {
		return err
	}
	*m = JoinRequest{
		Header: h, ReplyID: v.u64(offReplyID), Session: v.sessionID(offSession), Group: v.name(offJoinGroup),
	}
	return nil
}

// JoinReply answers a JoinRequest.
type JoinReply struct {
	Header
	Status  Status
	Session SessionID
	Timeout uint32 // seconds
	Name    Name   // of the session
}

// Append appends the encoded message to b.
func (m *JoinReply) Append(b []byte) []byte {
	b, v := m.begin(b, TypeJoinRequest.Reply())
	v.put32(offStatus, uint32(m.Status))
	v.putSessionID(offReplySession, m.Session)
	v.put32(offReplyTimeout, m.Timeout)
	v.putName(offReplyName, m.Name)
	return b
}

// Decode decodes b into m. It returns ErrSize, ErrMagic or ErrType if b is not a message of this type.
func (m *JoinReply) Decode(b []byte) error {
	h, v, err := expect(b, TypeJoinRequest.Reply())
	if err != nil {
		return err
	}
	*m = JoinReply{
		Header: h, Status: Status(v.u32(offStatus)), Session: v.sessionID(offReplySession),
		Timeout: v.u32(offReplyTimeout), Name: v.name(offReplyName),
	}
	return nil
}
