// Package capture records LNet messages as seen inside lnetd in the format pcapng. Start selects messages by a Filter
// and encodes them in memory of constant size, in the goroutines that handle the messages; Capture.Next returns what was
// encoded. If the reader is too slow, messages are left out and counted.
//
// Each packet is a frame of socklnd with an LNet message, whatever the driver, in the link type "Wireshark Upper PDU".
// Wireshark and tshark pass it to the dissector for TCP port 988: that of deploy/wireshark if it is installed, and
// otherwise the built-in one. So NIDs need not be IP addresses.
//
// internal/lnetd/daemon starts captures for the control interface. The package starts no goroutine.
package capture
