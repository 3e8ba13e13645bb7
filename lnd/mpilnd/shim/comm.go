//go:build mpi

package shim

// #include "load.h"
import "C"

import (
	"fmt"
	"math"
	"runtime"

	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
)

// comm implements boundary.Comm for the shim's communicator.
type comm struct {
	m          *mpi
	rank, size int
}

func (c *comm) Rank() int { return c.rank }
func (c *comm) Size() int { return c.size }

func (c *comm) Send(to, tag int, b []byte, id uint64) error {
	if err := c.check(to, tag, b); err != nil {
		return fmt.Errorf("mpi: send: %w", err)
	}
	slot, address := c.m.acquire(b)
	return c.started("send", slot, C.call_send(c.m.c, address, C.int(len(b)), C.int(to), C.int(tag), C.uint64_t(id), C.int(slot)))
}

func (c *comm) Receive(from, tag int, b []byte, id uint64) error {
	rank := from
	if from == boundary.Any {
		rank = 0
	}
	if err := c.check(rank, tag, b); err != nil {
		return fmt.Errorf("mpi: receive: %w", err)
	}
	slot, address := c.m.acquire(b)
	return c.started("receive", slot, C.call_receive(c.m.c, address, C.int(len(b)), C.int(from), C.int(tag), C.uint64_t(id), C.int(slot)))
}

// check checks the arguments of a request. Some ranks and tags that are not allowed have a meaning for MPI.
func (c *comm) check(rank, tag int, b []byte) error {
	switch {
	case rank < 0 || rank >= c.size:
		return fmt.Errorf("rank %d of %d", rank, c.size)
	case tag < 1 || tag > c.m.maxTag:
		return fmt.Errorf("tag %d, largest %d", tag, c.m.maxTag)
	case len(b) > math.MaxInt32:
		return fmt.Errorf("%d bytes, at most %d", len(b), math.MaxInt32)
	}
	return nil
}

// started releases the slot of a request that could not be started.
func (c *comm) started(what string, slot int, rc C.int) error {
	if rc == 0 {
		return nil
	}
	c.m.release(slot)
	return c.m.failed(what, rc)
}

func (c *comm) Cancel(id uint64) error {
	rc := C.call_cancel(c.m.c, C.uint64_t(id))
	if rc > 0 {
		return fmt.Errorf("mpi: cancel: no receive has the ID %d", id)
	}
	return c.m.failed("cancel", rc)
}

func (c *comm) Barrier() error { return c.m.failed("barrier", C.call_barrier(c.m.c)) }

func (c *comm) Broadcast(b []byte, root int) error {
	if err := c.check(root, 1, b); err != nil {
		return fmt.Errorf("mpi: broadcast: %w", err)
	}
	var p runtime.Pinner
	defer p.Unpin()
	return c.m.failed("broadcast", C.call_broadcast(c.m.c, pinned(&p, b), C.int(len(b)), C.int(root)))
}

func (c *comm) Gather(b, all []byte, root int) error {
	if err := c.check(root, 1, b); err != nil {
		return fmt.Errorf("mpi: gather: %w", err)
	}
	if want := len(b) * c.size; c.rank == root && len(all) != want {
		return fmt.Errorf("mpi: gather: %d bytes for %d", len(all), want)
	}
	var p runtime.Pinner
	defer p.Unpin()
	return c.m.failed("gather", C.call_gather(c.m.c, pinned(&p, b), C.int(len(b)), pinned(&p, all), C.int(root)))
}

func (c *comm) Abort(status int) { C.call_abort(c.m.c, C.int(status)) }
