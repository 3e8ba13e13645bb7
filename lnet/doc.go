// Package lnet is the vocabulary of the LNet protocol: identifiers (NID, Net,
// PID, Handle), the message header, ping info, the acceptor's request, the
// magics and limits, and every text syntax in which administrators write NIDs,
// networks and routes.
//
// Everything here is a value or a codec of one. Encoders append to the
// caller's buffer; decoders never panic, never allocate by a length that they
// have not checked, and name the field that is wrong (*FieldError) or how much
// is missing (*TruncatedError, which is io.ErrUnexpectedEOF). All packages
// above call it. It does no I/O, reads no clock, logs nothing and holds no
// goroutine; its functions may be called from any goroutine, and its values
// may be shared as long as nobody changes them.
package lnet
