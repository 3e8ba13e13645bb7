package node

import "sync/atomic"

// Progress is how a loop of the node's own gets on.
type Progress struct {
	// Loop is its name: "monitor" or "discoverer".
	Loop string
	// Step is another one each time the loop has got on.
	Step uint64
	// Waits says that the loop has nothing to do, and waits.
	Waits bool
}

// Progress tells of the node's loops. One that does not wait, and stays at its step for
// seconds, is stuck: in a handler that does not return, or in a defect.
func (n *Node) Progress() []Progress {
	n.made()
	return []Progress{n.pulse.progress("monitor"), n.discoverer.pulse.progress("discoverer")}
}

// pulse counts the steps of a loop, which beats it: twice for each, and once more while it
// waits.
type pulse struct{ beats atomic.Uint64 }

// The loop works when it begins.
const pulseWaits = 1

// step notes that the loop, which works, has got on.
func (p *pulse) step() { p.beats.Add(2) }

// wait notes that it has nothing to do, resume that it has again.
func (p *pulse) wait()   { p.beats.Add(1) }
func (p *pulse) resume() { p.beats.Add(1) }

func (p *pulse) progress(loop string) Progress {
	b := p.beats.Load()
	return Progress{Loop: loop, Step: b / 2, Waits: b&pulseWaits != 0}
}
