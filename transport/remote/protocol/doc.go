// Package protocol encodes and decodes the control records between lnetd and the programs whose transfer
// machines it hosts (transport 9.1, 9.2).
//
// A record is one datagram of a SOCK_SEQPACKET socket. It has a Header and usually a body. A client encodes
// requests with AppendRequest, and decodes received records with DecodeReply. lnetd decodes requests with
// DecodeRequest, and encodes replies and notices with AppendReply, AppendFailure and AppendNotice. The
// package does not handle the file descriptors that accompany some records (Opcode.RequestFDs, ReplyFDs), the
// order of records, or the rings.
//
// Numbers are little endian, NIDs have the 20 bytes of lnet.NID.AppendLarge, and unused bytes are 0. Errors
// are a *lnet.FieldError and have an errno. EPROTO means that the data is not a valid record, and that the
// connection must be closed. After any other error, lnetd can send the error as a reply. The package starts
// no goroutines. Several goroutines must not use the same value at a time.
package protocol
