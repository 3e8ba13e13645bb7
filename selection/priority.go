package selection

import "sync/atomic"

const (
	// NoPriority is the priority of what no rule gives one; 0 is the best.
	// Tools show it as -1.
	NoPriority uint32 = 0xffffffff
	// MaxHealth is the health of what works; the worst is 0.
	MaxHealth = 1000
)

// priority is an object's priority. It is kept as its complement, so that the
// zero value is NoPriority.
type priority struct{ complement atomic.Uint32 }

func (p *priority) get() uint32  { return ^p.complement.Load() }
func (p *priority) set(v uint32) { p.complement.Store(^v) }
