package transport

import (
	"fmt"
	"slices"
	"syscall"
)

// Confine binds the worker to processors, counted from 0: it gets a thread of its own that
// runs on them alone. The next Confine takes the place of this one. StateInitialized only.
// ENOSYS: the Core, or the system, has no such thing; EINVAL: there are none. Processors
// that are not to be had count as not named; if all are such, the start fails with EINVAL.
func (tm *TransferMachine) Confine(processors ...int) error {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	if err := tm.initialized("confine"); err != nil {
		return err
	}
	if !tm.domain.limits.Confine {
		return fmt.Errorf("transport: confine: not with %s on this system: %w", tm.domain.core.Name(), syscall.ENOSYS)
	}
	if len(processors) == 0 {
		return fmt.Errorf("transport: confine: no processors: %w", syscall.EINVAL)
	}
	tm.processors = slices.Clone(processors)
	return nil
}
