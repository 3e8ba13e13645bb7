// Package events remembers what has happened to the node: NIs, links, peers, gateways, routes, clients, changes of the
// configuration. The daemon's log is the only source: Log.Watch gets every event of level info and above before the
// limits of the log apply (boundedlog.NewWatched), and assigns it to a kind (kind.go).
//
// A Log keeps the latest events of each kind, so that many events of one kind do not displace others. Readers
// (reader.go) have only a position in it: a slow one needs no memory, never delays an event, and learns how many
// events it has lost.
//
// internal/lnetd/daemon creates the Log. The package starts no goroutine.
package events
