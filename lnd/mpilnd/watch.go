package mpilnd

import (
	"errors"
	"log/slog"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/mpilnd/protocol"
	"github.com/lnetd/lnetd/lnd/peering"
)

var errLength = errors.New("the payload does not have the length that was announced")

// probeAfter is how long a peer may be silent, although an answer is expected, before it is probed.
const probeAfter = peering.StallAfter / 2

// hear records a sign of life.
func (p *peer) hear() {
	now := time.Now()
	p.heard, p.since, p.probed, p.unanswered = now, now, false, false
	p.doubt.Check(now, true)
}

// await makes that time begin within which the peer has to answer, unless something is expected from it already. It is
// called before something is.
func (p *peer) await() {
	if !p.expects() {
		p.since = time.Now()
	}
}

// renew makes the time begin again within which the peer has to answer.
func (p *peer) renew(now time.Time) {
	p.since = now
}

// expects reports whether something has to come from the peer: the acceptance of a link, an answer to what was sent, or
// the progress of a message.
func (p *peer) expects() bool {
	return p.local != 0 && (!p.open || p.unanswered || p.probed || p.doubt.Probed() || p.queue.len() > 0 || p.waits())
}

// waits reports whether a message waits for the peer. An arrival without a placement does not.
func (p *peer) waits() bool {
	for _, t := range p.active {
		if a, ok := t.(*arrival); !ok || a.requests > 0 {
			return true
		}
	}
	return false
}

// watch probes a peer that is silent, reports a stall, and ends the link of a peer that does not answer (mpilnd B.8).
func (p *peer) watch(now time.Time) {
	i := p.d.ni
	expects := p.expects()
	silent := now.Sub(p.since)
	if expects && p.open && !p.probed && silent >= probeAfter {
		p.probed = true
		p.control(protocol.Probe)
	}
	switch {
	case expects && silent >= i.Timeout():
		p.end(ending{
			seen: lnd.StatusNetworkTimeout, unseen: lnd.StatusRemoteDropped, err: lnd.ErrTimeout, bye: protocol.Disconnected,
		})
	case p.doubt.Check(now, false):
		if p.incarnations.AssumeEnded() {
			p.restarted()
		}
		p.end(ending{
			seen: lnd.StatusNetworkTimeout, unseen: lnd.StatusRemoteDropped, err: peering.ErrStale, bye: protocol.Disconnected,
		})
	}
	p.checkStall(now, expects)
}

// checkStall reports the beginning and the end of a stall.
func (p *peer) checkStall(now time.Time, expects bool) {
	if !p.reports() {
		return
	}
	look := peering.Look{
		Now: now, Connected: true, Sent: p.sent, Waiting: &peering.Waiting{}, Idle: p.local == 0 && p.queue.len() == 0,
		Lapse: p.d.ni.Timeout(),
	}
	if p.open {
		look.Conns = 1
	}
	if expects && p.local != 0 && (p.probed || !p.open) {
		look.Silent = p.since
	}
	change, since := p.stall.Check(&look)
	switch change {
	case peering.StallUnchanged:
		return
	case peering.StallBegun:
		p.d.count.stalls.Add(1)
		p.log(slog.LevelWarn, "peer does not answer", slog.Time("since", since))
	case peering.StallEnded:
		p.logRecovered("peer answers again")
	case peering.StallMore, peering.StallLapsed:
	}
	p.d.ni.config.Upper.PeerStalled(p.id.NID, since)
}

// touch makes returnCredits look at the peer.
func (p *peer) touch() {
	if !p.touched {
		p.touched = true
		p.d.touched = append(p.d.touched, p)
	}
}

// returnCredits returns credits to peers to which nothing was sent that could carry them, if half of those that a peer
// could use are owed.
func (d *Driver) returnCredits() {
	for _, p := range d.touched {
		p.touched = false
		if inProgress := p.held - p.owed; p.open && p.owed > 0 && 2*p.owed >= p.granted-inProgress {
			d.count.creditsAlone.Add(1)
			p.control(protocol.Credit)
		}
	}
	d.touched = d.touched[:0]
}
