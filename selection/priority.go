package selection

import "sync/atomic"

const (
	// NoPriority is the priority of an object for which no rule sets one. It is the lowest
	// priority; the highest is 0. Tools show NoPriority as -1.
	NoPriority uint32 = 0xffffffff
	// MaxHealth is the health of an object without recent failures. The worst health is 0.
	MaxHealth = 1000
)

// priority is the priority of an object. It is stored as its complement, so that the zero
// value means NoPriority.
type priority struct{ complement atomic.Uint32 }

func (p *priority) get() uint32  { return ^p.complement.Load() }
func (p *priority) set(v uint32) { p.complement.Store(^v) }
