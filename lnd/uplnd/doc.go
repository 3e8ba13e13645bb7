// Package uplnd is the driver of NIs whose network another process serves, a proxy (docs/spec/mpilnd.md A.6).
//
// Server accepts proxies on a socket. Server.Driver returns a driver for the nets of one type. Each of its NIs
// is up while at least one proxy is attached and can carry traffic. The messages of an NI go to the proxy that
// has registered the PID of their destination, and the messages that proxies receive go to the node. Package
// protocol describes what both exchange, package proxy is the other side.
//
// Entries and payloads are in shared memory. lnetd copies a payload once, between the memory of a message and
// the area that it shares with the proxy. It trusts nothing that a proxy writes: a proxy that breaks the
// protocol, or does not answer in time, is cut off. When a proxy goes, all its messages end with an error,
// and its memory is released.
//
// Each proxy has two goroutines, which read the socket and the ring. Server.Close waits for them. Locks are
// acquired in the order ni.links, Server.mu, ni.mu, proxyEnd.mu. No lock is held during copies and upcalls,
// except those that serialize LinkChanged (ni.links) and PeerStalled (ni.stalls).
package uplnd
