// Package tshark compares our encoders with an independent decoder: Wireshark's, through the tshark
// command (Debian package tshark).
//
// Check writes the bytes that were sent over TCP connections to a capture file, has tshark decode it, and
// compares each LNet message with our own decoding of the same bytes. Decode returns only what tshark
// decodes.
//
// The package is for tests. It starts one child process per call and no goroutines. faults.go lists the
// known errors of tshark, which Check corrects.
package tshark
