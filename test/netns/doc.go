// Package netns holds tests of lnetd as it is used: whole processes in network
// namespaces of their own, joined by switches whose ports can be cut (carrier)
// and whose frames can be dropped (nftables). They need root, iproute2 and
// nftables. The namespaces are the tests' own and go with them.
//
// Routers are cmd/lnetd. Hosts that send are this test binary run once more: it
// is lnetd too, with the same configuration file and control socket, and has a
// load besides that uses the node in its own process (party).
package netns
