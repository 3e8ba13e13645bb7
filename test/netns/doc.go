// Package netns tests lnetd as it is used: as whole processes in separate network namespaces. Switches
// connect the namespaces. The tests can cut a switch's ports (carrier) and drop its frames (nftables).
// They need root, iproute2 and nftables. Each test creates its namespaces and deletes them at its end.
//
// Routers are cmd/lnetd. Hosts that send are a second process of this test binary. It is also lnetd, with
// the same configuration file and control socket, and in addition generates load in its own process
// (loadedDaemon).
package netns
