package protocol

import "github.com/lnetd/lnetd/lnet"

// Choose returns the type of the first protocol message that carries an LNet message of type t: Immediate,
// PutReq or GetReq (o2iblnd 10.1). payload is the length of the message's payload in bytes. sink is the length
// of the memory for the answer to a GET, or 0 if the driver does not know it. far is set if the peer is a
// router to the destination. device is set if the memory belongs to a device and cannot be copied into a
// message.
func Choose(t lnet.MsgType, payload, sink int, far, device bool) Type {
	switch t {
	case lnet.MsgGet:
		if far || sink == 0 || sink <= MaxPayload && !device {
			return Immediate
		}
		return GetReq
	case lnet.MsgPut, lnet.MsgReply:
		if payload > MaxPayload || device && payload > 0 {
			return PutReq
		}
	}
	return Immediate
}
