// Package simulation tortures whole nodes on a network in memory. A seed
// decides everything: how many nodes and rails, what traffic, which faults and
// when. A checker watches all the while that no message is delivered twice or
// to the wrong place, that every operation ends once and in time, that no byte
// is written which should not be, that nothing is left at the end, and that
// nodes that discover each other know each other as they are. In some scenarios
// routers join them.
//
// Run makes one scenario; it is called in a testing/synctest bubble. `make sim`
// runs many seeds.
//
// Goroutines of a Run: agents that make traffic, two that inflict faults (the
// network's and the nodes'), pings, timers and the inspector, all ended when it
// returns. What they decide comes from the seed; what the nodes do meanwhile may
// interleave differently each time, which is why a failure comes with a trace.
package simulation
