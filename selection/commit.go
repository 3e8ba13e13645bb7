package selection

// Commit notes that a message goes that way (selection 5.7), so that the next
// one goes another where all else is equal. Every attempt to send counts, also
// if the message then waits or is dropped. Of a peer that is not multi-rail it
// notes which NI serves it, as the kind of message has it.
func (d *Decision) Commit() {
	if d.Loopback() {
		return
	}
	d.Next.step()
	turn := d.local.turn.Add(1)
	d.net.turn.Store(turn)
	d.NI.turn.Store(turn)
	if d.Routed() {
		d.Final.step()
	}
	if d.Route != nil {
		d.Route.turn.Store(d.routeTurn)
	}
	if d.prefer {
		d.Final.Prefer(d.NI)
	}
}

// step makes p and its net the last of the peer that something was sent to.
func (p *PeerNI) step() {
	peer := p.peer.Load()
	if peer == nil {
		return
	}
	turn := peer.turn.Add(1)
	if n := peer.Net(p.NID.Net()); n != nil {
		n.turn.Store(turn)
	}
	p.turn.Store(turn)
}
