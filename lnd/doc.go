// Package lnd is the contract between a node and its network drivers (LNet
// network drivers, LNDs): socklnd over TCP, o2iblnd over verbs, a driver in
// another process, a simulated fabric.
//
// A Driver opens Interfaces, one per NI. The node hands messages down with
// Interface.Send and hears of arrivals through Upper. Each message handed
// down is completed exactly once; each arrival is placed exactly once.
// Tx and Rx describe a message so that no byte of it needs to be copied, and so
// that a driver that moves payload by RDMA can do so.
//
// The package runs no goroutine. Package lnd/lndtest is the conformance
// suite that every driver runs.
package lnd
