package transport

import (
	"fmt"
	"slices"
	"syscall"
)

// Confine binds the TM's worker to processors, numbered from 0: the worker gets an operating system thread
// that runs only on these. A further call replaces the set. Confine is allowed in StateInitialized only. It
// returns ENOSYS if the Core or the system does not support it, and EINVAL if no processor is given.
// Processors that are unavailable are ignored. If all are unavailable, the start of the TM fails with EINVAL.
func (tm *TransferMachine) Confine(processors ...int) error {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	if err := tm.initialized("confine"); err != nil {
		return err
	}
	if !tm.domain.limits.Confine {
		return fmt.Errorf("transport: confine: not supported by %s on this system: %w", tm.domain.core.Name(), syscall.ENOSYS)
	}
	if len(processors) == 0 {
		return fmt.Errorf("transport: confine: no processors are given: %w", syscall.EINVAL)
	}
	tm.processors = slices.Clone(processors)
	return nil
}
