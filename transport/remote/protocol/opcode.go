package protocol

import "fmt"

// Opcode is the type of a record. A reply has the opcode of its request (transport 9.2).
type Opcode uint16

const (
	// OpHello is the first request on a connection. The request is Hello, the reply HelloReply.
	OpHello Opcode = 1
	// OpNIDsGet requests the NIDs of lnetd's node. The request is NIDsGet, the reply NIDsReply.
	OpNIDsGet Opcode = 2
	// OpAreaAdd passes memory for buffers to lnetd, as an area. The request is AreaAdd, the reply AreaAddReply.
	OpAreaAdd Opcode = 3
	// OpAreaDel removes an area. The request is AreaDel, the reply Empty.
	OpAreaDel Opcode = 4
	// OpBufRegister registers parts of areas as a buffer. The request is BufRegister, the reply
	// BufRegisterReply.
	OpBufRegister Opcode = 5
	// OpBufDeregister deregisters a buffer. The request is BufDeregister, the reply Empty.
	OpBufDeregister Opcode = 6
	// OpTMStart starts a transfer machine. The request is TMStart, the reply TMStartReply.
	OpTMStart Opcode = 7
	// OpTMStop stops a transfer machine. The request is TMStop, the reply Counters.
	OpTMStop Opcode = 8
	// OpStatsGet requests statistics. The request is StatsGet, the reply Counters.
	OpStatsGet Opcode = 9
	// OpNop requests a reply with the same body. The request is Nop, the reply Nop.
	OpNop Opcode = 10
	// OpNotice is a record that lnetd sends without a request: Notice.
	OpNotice Opcode = 64
)

// String returns the name of the opcode in transport 9.2, such as "TM_START". For an unknown opcode it
// returns a text such as "opcode 99".
func (o Opcode) String() string {
	switch o {
	case OpHello:
		return "HELLO"
	case OpNIDsGet:
		return "NIDS_GET"
	case OpAreaAdd:
		return "AREA_ADD"
	case OpAreaDel:
		return "AREA_DEL"
	case OpBufRegister:
		return "BUF_REGISTER"
	case OpBufDeregister:
		return "BUF_DEREGISTER"
	case OpTMStart:
		return "TM_START"
	case OpTMStop:
		return "TM_STOP"
	case OpStatsGet:
		return "STATS_GET"
	case OpNop:
		return "NOP"
	case OpNotice:
		return "NOTICE"
	}
	return fmt.Sprintf("opcode %d", uint16(o))
}

// RequestFDs returns the number of file descriptors that accompany a request: one for AREA_ADD, the memfd of
// the area, and otherwise none.
func (o Opcode) RequestFDs() int {
	if o == OpAreaAdd {
		return 1
	}
	return 0
}

// ReplyFDs returns the number of file descriptors that accompany a successful reply. For TM_START there are
// three, in this order: the memfd of the rings, the eventfd that wakes lnetd, and the socket that wakes the
// client. Other replies, and failures of all requests, are sent without file descriptors.
func (o Opcode) ReplyFDs() int {
	if o == OpTMStart {
		return 3
	}
	return 0
}
