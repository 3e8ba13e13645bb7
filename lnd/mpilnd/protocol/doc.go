// Package protocol is the protocol of LNet over MPI (docs/spec/mpilnd.md B.5).
//
// Message is the codec of short messages, which all have one tag of MPI. Order restores the order in which a
// process has sent them. Tags allocates the tags of payloads that are sent separately.
//
// Numbers are little endian; NIDs have the 20 bytes of lnet.NID.AppendLarge, and headers the 96 bytes of
// lnet.Header.AppendNID16. Unused bytes are 0. Errors of decoding are a *lnet.FieldError, *lnet.MagicError,
// *lnet.VersionError or *lnet.TruncatedError. The package does no I/O, starts no goroutines, and is not safe for
// concurrent use.
package protocol
