package selection

import "sync/atomic"

const (
	// NoPriority is the priority of an object that no rule matches. Tools show it as -1.
	// The best priority is 0.
	NoPriority uint32 = 0xffffffff
	// MaxHealth is the health of an object that works. The worst health is 0.
	MaxHealth = 1000
)

// priority is an object's priority. It is stored as its complement, so that the zero value
// is NoPriority.
type priority struct{ complement atomic.Uint32 }

func (p *priority) get() uint32  { return ^p.complement.Load() }
func (p *priority) set(v uint32) { p.complement.Store(^v) }
