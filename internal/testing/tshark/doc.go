// Package tshark compares our encoders with an independent decoder: Wireshark's, through the tshark
// command (Debian package tshark).
//
// Check writes the bytes of TCP streams to a capture file, decodes the file with tshark, and compares
// each LNet message with what our decoder returns for the same bytes. Decode returns the messages that
// tshark decodes.
//
// The package is for tests. Each call starts one child process and no goroutines. faults.go lists the
// known errors of tshark, which Check and Decode correct or avoid. The package also has the tests of
// lnetd's own dissector for Wireshark (deploy/wireshark), which shows what tshark does not decode.
package tshark
