// Package protocol has the control records between lnetd and the programs whose transfer
// machines it hosts: a codec, bytes in and values out (transport 9.1, 9.2).
//
// A record is one datagram of a SOCK_SEQPACKET socket: a Header and, for most, a body. A
// client sends requests by AppendRequest, and reads what comes by DecodeReply; lnetd takes
// them by DecodeRequest and answers by AppendReply, AppendFailure and AppendNotice. File
// descriptors that go along (Opcode.RequestFDs, ReplyFDs), the order of records and the
// rings are the business of those two.
//
// Numbers are little endian, NIDs are lnet.NID.AppendLarge's 20 bytes, and what has no
// meaning is 0. Errors are a *lnet.FieldError and have an errno: EPROTO if a record is none,
// which costs the connection; any other is an answer. Nothing here is safe for concurrent
// use, or starts a goroutine.
package protocol
