// Package lnet defines the values of the LNet protocol and their encodings: identifiers
// (NID, Net, PID, Handle), the message header, ping info, the acceptor request, and magic
// numbers and limits. It also parses and prints every text syntax that administrators use
// for NIDs, networks and routes.
//
// Encoders append to the caller's buffer. Decoders never panic and never allocate memory by
// a length that they have not validated. A decoder returns a *FieldError that names the
// invalid field, or a *TruncatedError, which matches io.ErrUnexpectedEOF and holds the
// number of missing bytes.
//
// The package does no I/O, reads no clock, logs nothing and starts no goroutine. Its
// functions may be called from any goroutine. Values may be shared between goroutines as
// long as none of them modifies them.
package lnet
