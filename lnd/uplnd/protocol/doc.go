// Package protocol is the protocol between lnetd and a proxy, a program that is the driver of an NI
// (docs/spec/mpilnd.md A.6 and B.6).
//
// A proxy connects to a socket of lnetd and sends one record, Attach. With its reply, Attached, lnetd passes
// a ring file and an area of shared memory. From then on both sides exchange entries through the rings:
// orders of lnetd and reports of the proxy. Payload is in the area. The first half of the area is for
// payloads of messages to be sent, and lnetd allocates in it; the second half is for payloads of messages
// that have arrived, and the proxy allocates there. Buffers is the allocator of a half. Handles gives messages
// the numbers by which entries refer to them.
//
// Numbers are little endian; NIDs have the 20 bytes of lnet.NID.AppendLarge, and headers the 96 bytes of
// lnet.Header.AppendNID16. Unused bytes are 0. Errors of decoding are a *lnet.FieldError. The package does
// no I/O, starts no goroutines, and is not safe for concurrent use.
package protocol
