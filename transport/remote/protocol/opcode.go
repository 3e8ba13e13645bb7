package protocol

import "fmt"

// Opcode is the type of a record. A reply has the opcode of its request (transport 9.2).
type Opcode uint16

const (
	// OpHello is the first request of a connection: Hello, HelloReply.
	OpHello Opcode = 1
	// OpNIDsGet requests the local NIDs: NIDsGet, NIDsReply.
	OpNIDsGet Opcode = 2
	// OpAreaAdd passes memory for buffers to lnetd: AreaAdd, AreaAddReply.
	OpAreaAdd Opcode = 3
	// OpAreaDel removes an area: AreaDel, Empty.
	OpAreaDel Opcode = 4
	// OpBufRegister registers parts of areas as a buffer: BufRegister, BufRegisterReply.
	OpBufRegister Opcode = 5
	// OpBufDeregister deregisters a buffer: BufDeregister, Empty.
	OpBufDeregister Opcode = 6
	// OpTMStart starts a transfer machine: TMStart, TMStartReply.
	OpTMStart Opcode = 7
	// OpTMStop stops it: TMStop, Counters.
	OpTMStop Opcode = 8
	// OpStatsGet requests statistics: StatsGet, Counters.
	OpStatsGet Opcode = 9
	// OpNop requests an echo: Nop, Nop.
	OpNop Opcode = 10
	// OpNotice is sent by lnetd without a request: Notice.
	OpNotice Opcode = 64
)

// String returns the name in transport 9.2, such as "TM_START", or a text such as "opcode 99".
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

// RequestFDs returns the number of file descriptors that accompany a request: the memfd of an area,
// otherwise none.
func (o Opcode) RequestFDs() int {
	if o == OpAreaAdd {
		return 1
	}
	return 0
}

// ReplyFDs returns the number of file descriptors that accompany a successful reply. For TM_START these are
// the memfd of the ring, the eventfd that wakes lnetd, and the socket that wakes the client, in this order.
// Other replies have no descriptors, and failures never do.
func (o Opcode) ReplyFDs() int {
	if o == OpTMStart {
		return 3
	}
	return 0
}
