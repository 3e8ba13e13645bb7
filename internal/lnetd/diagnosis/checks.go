package diagnosis

// checks are the checks that Examine makes. Each returns the findings of a few kinds.
var checks = []func(*Facts) []Finding{
	reachable, startable, unconfigured, descriptors, disks,
	waitingNIs, downNIs, unhealthyNIs, addresses, anyNI,
	silentPeers, conflictingPeers,
	path, ping, packets, discovery, rails,
	routes, gateways, routing,
	clients, proxies,
}
