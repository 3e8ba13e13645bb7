// Package multitude simulates networks of very many whole nodes in one process: up to 100,000 clients
// of one or more servers, which they reach directly or through gateways. It measures what an event in
// the network costs each node: messages, memory, processor time, and simulated time until nothing
// happens any more.
//
// The nodes are those of package node, with all their timers. Only the driver is simple (mesh): it has
// no connections and copies each message to its receiver, which takes the messages of each interface
// one after the other. So costs of sockets are not included.
//
// Call Run in a testing/synctest bubble. `make scale` runs it with many sizes.
package multitude
