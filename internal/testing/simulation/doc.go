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
// In half of the scenarios the members also have transfer machines. The node of each life has a station
// with berths. One transfer machine after another runs in a berth. Couriers make the machines send
// letters and announce cargo, which peers fetch or fill, and they cancel, stop and start things. Add
// lends a buffer to the machine until its final event (loan). The checker verifies that
//
//   - the final event comes once and in time, with an error only if a fault explains it,
//   - letters and cargo arrive unchanged and once,
//   - returned memory does not change,
//   - the machine's own statistics are right,
//   - machines fail when their node closes, and all domains close with nothing left.
//
// After the faults have ended, letters and cargo must get through again.
//
// Run runs one scenario. Call it in a testing/synctest bubble. `make sim` runs many seeds.
//
// Run starts goroutines for agents and couriers, which generate traffic, for faults (of the networks and
// of the nodes), pings, timers, events with synchronous delivery, and the inspector. All have ended when
// it returns. The seed decides what they do. The nodes' goroutines may interleave differently each time,
// so a failure comes with a trace.
package simulation
