package fault

import (
	"github.com/lnetd/lnetd/lnet"
)

// Message is what rules look at.
type Message struct {
	// Source and Dest are those of the header: where the message was made and
	// where it goes in the end, not the hop.
	Source, Dest lnet.NID
	// Local is the NI that the message arrived on, and zero when it is looked
	// at for sending: a rule for a local NID acts on arrivals only.
	Local lnet.NID
	// Type is ACK, PUT, GET or REPLY; no rule matches any other.
	Type lnet.MsgType
	// Portal of a PUT or GET; not looked at for the others.
	Portal uint32
}

// MessageMask is a set of message types: bit n is lnet.MsgType n (lnet-core 11.1).
type MessageMask uint8

// The types that a rule can name. A rule that names none takes all four.
const (
	Ack   MessageMask = 1 << lnet.MsgAck
	Put   MessageMask = 1 << lnet.MsgPut
	Get   MessageMask = 1 << lnet.MsgGet
	Reply MessageMask = 1 << lnet.MsgReply

	allMessages = Ack | Put | Get | Reply
)

// ParseMessage reads the name of one message type, in any case. What it does
// not know is a *lnet.FieldError.
func ParseMessage(s string) (MessageMask, error) {
	t, err := lnet.ParseMsgType(s)
	if err != nil {
		return 0, err
	}
	return 1 << t, nil
}

// has tells whether t is in the set.
func (m MessageMask) has(t lnet.MsgType) bool { return t <= lnet.MsgReply && m&(1<<t) != 0 }
