package peering

import "time"

// probePatience is how long a peer in doubt may be silent after the probe. A host that has restarted usually
// answers the probe in a way that ends the connection, such as a reset. This limit is for hosts that do not
// answer at all.
const probePatience = 2 * time.Second

// Doubt is set while it is uncertain whether a peer's connections still belong to its current incarnation. A
// doubt begins when another NID of the peer announces a newer incarnation (lnd.Interface.Probe). Each NI has
// its own incarnation, so the announcement does not show that this NID's incarnation has ended; a probe on the
// connections does. The zero value means that there is no doubt. The peer's lock guards it.
type Doubt struct {
	begun  bool
	probed time.Time // when the probe was sent; zero before that
}

// Begin begins a doubt. It returns false if the peer is in doubt already.
func (d *Doubt) Begin() bool {
	begun := d.begun
	d.begun = true
	return !begun
}

// BeginProbe reports whether the caller must send the probe now: the peer is in doubt and has not been
// probed. If so, it records now as the time of the probe.
func (d *Doubt) BeginProbe(now time.Time) bool {
	if !d.begun || !d.probed.IsZero() {
		return false
	}
	d.probed = now
	return true
}

// Probed reports whether the peer is in doubt and the probe has been sent.
func (d *Doubt) Probed() bool { return !d.probed.IsZero() }

// Check ends the doubt if alive is set: the peer has given a sign of life since the probe. Otherwise it
// reports whether the peer has been silent for longer than probePatience. The caller then closes its
// connections.
func (d *Doubt) Check(now time.Time, alive bool) (silent bool) {
	switch {
	case !d.Probed():
		return false
	case alive:
		d.End()
		return false
	}
	return now.Sub(d.probed) >= probePatience
}

// End ends the doubt and reports whether there was one. It is also called when connections to the peer have
// ended, because a peer without connections cannot be probed.
func (d *Doubt) End() bool {
	begun := d.begun
	*d = Doubt{}
	return begun
}
