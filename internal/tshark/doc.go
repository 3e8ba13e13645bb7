// Package tshark holds what our encoders emit against an independent
// decoder, Wireshark's, through the tshark command (Debian package tshark).
//
// Check takes what was sent over TCP connections, shows it to tshark as a
// recording, and compares each LNet message that tshark decodes with our own
// decoding of the same bytes. Decode gives tshark's view alone.
//
// It is for tests and starts one child process per call, no goroutines. What
// tshark is known to get wrong is allowed for by name in faults.go.
package tshark
