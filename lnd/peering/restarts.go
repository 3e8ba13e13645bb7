package peering

// Restarts counts the restarts of one peer that are still to be reported to the node
// (lnd.Upper.PeerRestarted), including the one that is being reported. Meanwhile no connection of the
// peer may begin to carry messages, and the peer must stay in its interface's table: another peer with
// the same NID would not know that it has to wait. The zero value has none. The peer's lock guards it.
type Restarts struct{ pending int }

// Add records a restart that is to be reported.
func (r *Restarts) Add() { r.pending++ }

// Done records that a report has returned.
func (r *Restarts) Done() { r.pending-- }

// Pending reports whether there are restarts that are still to be reported.
func (r *Restarts) Pending() bool { return r.pending > 0 }
