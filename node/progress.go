package node

import "sync/atomic"

// Progress shows whether an internal loop of the node, the monitor or the discoverer,
// makes progress.
type Progress struct {
	// Loop is "monitor" or "discoverer".
	Loop string
	// Step changes whenever the loop completes a piece of work.
	Step uint64
	// Waits reports whether the loop is waiting for work.
	Waits bool
}

// Progress returns the progress of the node's loops. A loop is stuck if it is not waiting
// and its step does not change for seconds: either a handler does not return, or there is
// a bug.
func (a *Admin) Progress() []Progress {
	n := a.n
	if !n.isMade() {
		return nil
	}
	return []Progress{n.pulse.progress("monitor"), n.discoverer.pulse.progress("discoverer")}
}

// loopProgress counts the steps of a loop. The count grows by two with each step, and is
// odd while the loop waits for work.
type loopProgress struct{ count atomic.Uint64 }

// pulseWaits is the bit of the count that is set while the loop waits. A new loop counts
// as working.
const pulseWaits = 1

// step records that the loop, which is working, has made progress.
func (p *loopProgress) step() { p.count.Add(2) }

// wait records that the loop begins to wait for work, and resume that it works again.
func (p *loopProgress) wait()   { p.count.Add(1) }
func (p *loopProgress) resume() { p.count.Add(1) }

func (p *loopProgress) progress(loop string) Progress {
	b := p.count.Load()
	return Progress{Loop: loop, Step: b / 2, Waits: b&pulseWaits != 0}
}
