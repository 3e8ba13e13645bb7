// Package simulation tortures whole nodes on a network in memory. A seed
// decides everything: how many nodes and rails, what traffic, which faults and
// when. A checker watches all the while that no message is delivered twice or
// to the wrong place, that every operation ends once and in time, that no byte
// is written which should not be, that nothing is left at the end, and that
// nodes that discover each other know each other as they are. In some scenarios
// routers join them. Half of the networks are TCP beside RDMA, or RDMA alone, over the fabric
// of package fabric, where no key may ever be used for what it does not allow.
//
// In half of the scenarios members have transfer machines, besides: a station on the node
// of each of their lives, with berths where one machine after another is. Couriers have
// them send letters, announce cargo to be fetched or filled, and cancel, stop and start
// again. Each buffer is lent (loan) by Add until its final event, which must come once, in
// time, with an error only that what happened allows; letters and cargo must be what was
// sent, and come once; memory that has come back must stay as it is; a machine's own
// figures must be what was seen; machines of a node that closes must fail, and all domains
// close with nothing left. When the faults are over, letters and cargo get through again.
//
// Run makes one scenario; it is called in a testing/synctest bubble. `make sim`
// runs many seeds.
//
// Goroutines of a Run: agents and couriers that make traffic, three that inflict faults (the
// networks' and the nodes'), pings, timers, those who deliver events of machines with
// synchronous delivery, and the inspector, all ended when it returns. What they decide comes
// from the seed; what the nodes do meanwhile may interleave differently each time, which is
// why a failure comes with a trace.
package simulation
