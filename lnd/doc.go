// Package lnd is the contract between a node and its network drivers (LNet network drivers, LNDs). Drivers are,
// for example, socklnd over TCP, o2iblnd over verbs, a driver in another process, and a simulated network.
//
// A Driver opens Interfaces, one for each NI. The node sends messages with Interface.Send, and arrivals are
// reported to it through Upper. The driver completes each message exactly once. The node gives exactly one
// Placement for each arrival. Tx and Rx describe a message so that no byte of it needs to be copied, and so
// that a driver can move the payload by RDMA.
//
// The package starts no goroutine. Package lnd/lndtest is the conformance suite that every driver runs.
package lnd
