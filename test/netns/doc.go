// Package netns holds tests of lnetd as it is used: whole processes in network
// namespaces of their own, joined by a veth pair, with default options. They
// need root and iproute2. The namespaces are the tests' own and go with them.
package netns
