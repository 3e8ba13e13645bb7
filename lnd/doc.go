// Package lnd is the contract between a node and its network drivers (LNet network drivers, LNDs).
// Drivers are, for example, socklnd over TCP, o2iblnd over verbs, a driver in another process, and a
// simulated fabric.
//
// A Driver opens Interfaces, one per NI. The node sends messages with Interface.Send and receives
// arrivals through Upper. Each sent message is completed exactly once; each arrival is placed exactly
// once. Tx and Rx describe a message so that no byte of it needs to be copied, and so that a driver can
// move the payload by RDMA.
//
// The package runs no goroutine. Package lnd/lndtest is the conformance suite that every driver runs.
package lnd
