package diagnosis

// checks are the checks that Examine makes. Each returns the findings of a few kinds.
var checks = []func(*Facts) []Finding{
	reachable, startable, unconfigured, stuck,
	descriptors, lockable, clock, disks,
	waitingNIs, downNIs, unhealthyNIs, addresses, claimed, timeouts, anyNI,
	silentPeers, conflictingPeers, credits,
	path, ping, packets, discovery, rails, twins, avoided,
	routes, gateways, routing, asymmetric,
	clients, proxies,
}
