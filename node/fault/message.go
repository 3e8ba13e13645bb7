package fault

import (
	"github.com/lnetd/lnetd/lnet"
)

// Message holds the properties of a message that rules compare.
type Message struct {
	// Source and Dest are taken from the header: the origin of the message and its final
	// destination, not the next hop.
	Source, Dest lnet.NID
	// Local is the NI on which the message arrived. It is zero for a message that is about to
	// be sent, so a rule whose filter has a local NID applies to arrivals only.
	Local lnet.NID
	// Type is the type of the message. Rules match ACK, PUT, GET and REPLY, but no other
	// type.
	Type lnet.MsgType
	// Portal is the portal of a PUT or GET. It is ignored for other types.
	Portal uint32
}

// MessageMask is a set of message types. Bit n stands for lnet.MsgType n (lnet-core 11.1).
type MessageMask uint8

// Message types for a rule. A rule with an empty set matches all four.
const (
	Ack   MessageMask = 1 << lnet.MsgAck
	Put   MessageMask = 1 << lnet.MsgPut
	Get   MessageMask = 1 << lnet.MsgGet
	Reply MessageMask = 1 << lnet.MsgReply

	allMessages = Ack | Put | Get | Reply
)

// ParseMessage parses the name of one message type, ignoring case. It returns a
// *lnet.FieldError if the name is unknown.
func ParseMessage(s string) (MessageMask, error) {
	t, err := lnet.ParseMsgType(s)
	if err != nil {
		return 0, err
	}
	return 1 << t, nil
}

// has reports whether t is in the set.
func (m MessageMask) has(t lnet.MsgType) bool { return t <= lnet.MsgReply && m&(1<<t) != 0 }
