package protocol

import "fmt"

// Opcode says what a record is about; a reply has that of its request (transport 9.2).
type Opcode uint16

const (
	// OpHello is the first request of a connection: Hello, HelloReply.
	OpHello Opcode = 1
	// OpNIDsGet asks for the local NIDs: NIDsGet, NIDsReply.
	OpNIDsGet Opcode = 2
	// OpAreaAdd hands memory over, of which buffers may have parts: AreaAdd, AreaAddReply.
	OpAreaAdd Opcode = 3
	// OpAreaDel takes it back: AreaDel, Empty.
	OpAreaDel Opcode = 4
	// OpBufRegister makes parts of areas a buffer: BufRegister, BufRegisterReply.
	OpBufRegister Opcode = 5
	// OpBufDeregister ends it: BufDeregister, Empty.
	OpBufDeregister Opcode = 6
	// OpTMStart starts a transfer machine: TMStart, TMStartReply.
	OpTMStart Opcode = 7
	// OpTMStop ends it: TMStop, Counters.
	OpTMStop Opcode = 8
	// OpStatsGet asks for figures: StatsGet, Counters.
	OpStatsGet Opcode = 9
	// OpNop asks for an echo: Nop, Nop.
	OpNop Opcode = 10
	// OpNotice comes from lnetd without a request: Notice.
	OpNotice Opcode = 64
)

// String is the name that transport 9.2 gives: "TM_START", or "opcode 99".
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

// RequestFDs is how many file descriptors go along with a request: the memfd of an area,
// otherwise none.
func (o Opcode) RequestFDs() int {
	if o == OpAreaAdd {
		return 1
	}
	return 0
}

// ReplyFDs is how many come with a reply whose status is 0: of a transfer machine the memfd
// of its ring, the eventfd that wakes lnetd, and the socket that wakes the client, in this
// order; otherwise none. A failure has none.
func (o Opcode) ReplyFDs() int {
	if o == OpTMStart {
		return 3
	}
	return 0
}
