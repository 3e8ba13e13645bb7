// Package simulation stress-tests whole nodes on a network in memory. A seed decides everything: the
// number of nodes and rails, the traffic, the faults and their times. All the while a checker verifies
// that
//
//   - no message is delivered twice or to the wrong place,
//   - every operation ends once and in time,
//   - no byte is written that should not be,
//   - nothing is left at the end,
//   - nodes that discover each other have a correct view of each other.
//
// Some scenarios have routers. Half of the networks are TCP beside RDMA, or RDMA alone. RDMA runs over
// the fabric of package fabric, which checks that no key is used for anything that it does not allow.
//
// A member is a host whose node may die and start again. A life is the time of one node, from its start
// to its end. In half of the scenarios the members also have transfer machines. Each life has a
// transport layer with slots, and one transfer machine after another runs in a slot. Agents make the
// machines send messages and announce passive buffers, which peers read or write; they also cancel
// buffers, and stop and start machines. A loan is the use of a buffer by a machine, from Add to the
// final event. The checker verifies that
//
//   - the final event comes once and in time, with an error only if a fault explains it,
//
// - messages and bulk data arrive unchanged and once,
//   - returned memory does not change,
//   - the machine's own statistics are right,
//   - machines fail when their node closes, and all domains close with nothing left.
//
// After the faults have ended, every node and machine must be able to exchange data again.
//
// Run runs one scenario. Call it in a testing/synctest bubble. `make sim` runs many seeds.
//
// Run starts goroutines for agents, which generate traffic, for faults (of the networks and of the
// nodes), pings, timers, events with synchronous delivery, and periodic health checks. All have ended
// when it returns. The seed decides what they do. The nodes' goroutines may interleave differently each
// time, so a failure comes with a trace.
package simulation
