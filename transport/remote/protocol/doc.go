// Package protocol encodes and decodes the control records between lnetd and the programs whose transfer
// machines it hosts (transport 9.1, 9.2).
//
// A record is one datagram of a SOCK_SEQPACKET socket. It has a Header and usually a body. A client sends
// requests with AppendRequest, and decodes received records with DecodeReply. lnetd decodes requests with
// DecodeRequest, and answers with AppendReply, AppendFailure and AppendNotice. The package does not handle
// the accompanying file descriptors (Opcode.RequestFDs, ReplyFDs), the order of records, or the rings.
//
// Numbers are little endian, NIDs have the 20 bytes of lnet.NID.AppendLarge, and unused bytes are 0. Errors
// are a *lnet.FieldError and have an errno. EPROTO means that the data is not a valid record, and the
// connection must be closed. Any other error can be sent as a reply. The package is not safe for concurrent
// use, and starts no goroutines.
package protocol
