// Package cproxy has a proxy in C: the driver of an NI of lnetd in another process, over UDP. cproxy.c was
// written from docs/uplnd-protocol.md alone, and serves as an example for proxies in other languages. udp.c is
// its network, which has the datagrams of examples/udplnd. The tests compile both, and run them against lnetd's
// side of the protocol, with nodes that have other drivers for the same network.
package cproxy
