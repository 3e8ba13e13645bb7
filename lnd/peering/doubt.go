package peering

import "time"

// probePatience is how long a peer in doubt may be silent after the probe. A restarted host usually shows
// that it does not know a connection; this limit is for hosts that do not answer at all.
const probePatience = 2 * time.Second

// Doubt is whether a peer's connections belong to its current incarnation. It begins when another NID of
// the peer announces a newer incarnation (lnd.Interface.Probe). Each NI has its own incarnation, so only
// the connections themselves can show whether it has ended. The zero value is no doubt. The peer's lock
// guards it.
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

// BeginProbe reports whether the probe must be sent now, and records that it is.
func (d *Doubt) BeginProbe(now time.Time) bool {
	if !d.begun || !d.probed.IsZero() {
		return false
	}
	d.probed = now
	return true
}

// Probed reports whether there is a doubt and the probe was sent.
func (d *Doubt) Probed() bool { return !d.probed.IsZero() }

// Check ends the doubt if the peer has given a sign of life since the probe. Otherwise it reports whether
// the peer has been silent for too long. The caller then closes the connections.
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

// End ends the doubt, because one connection, or all of them, have ended. It reports whether the peer
// was in doubt.
func (d *Doubt) End() bool {
	begun := d.begun
	*d = Doubt{}
	return begun
}
