package protocol

import "github.com/lnetd/lnetd/lnet"

// Choose says in which form an LNet message travels (o2iblnd 10.1): Immediate,
// PutReq or GetReq. payload is its length, sink that of the memory where the answer
// to a GET belongs; 0: the driver does not know it. far: the peer is no more than a
// router on the way. device: the memory is a device's, which no message can carry.
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
