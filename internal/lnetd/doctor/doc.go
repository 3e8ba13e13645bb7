// Package doctor collects the facts from which internal/lnetd/diagnosis derives findings: it asks lnetd through the
// control socket, reads what the host shows in /proc and of its interfaces, asks by ARP which hosts have an address, and
// probes a peer. If lnetd does not answer, it runs "lnetd --check --json" to find out what would prevent a start.
//
// It is part of lnetdctl. Collect changes nothing, except that lnetd may discover the peer. It blocks for as long
// as pings and probes take, and waits for all goroutines that it starts.
package doctor
