//go:build mpi

package shim

// #include "load.h"
import "C"

import (
	"errors"
	"fmt"
	"math"
	"runtime"

	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
)

// comm implements boundary.Comm for one of the shim's communicators.
type comm struct {
	m          *mpi
	number     int // 0: the job's own
	rank, size int
}

var errInter = errors.New("the communicator connects two jobs")

func (c *comm) Rank() int { return c.rank }
func (c *comm) Size() int { return c.size }

func (c *comm) Send(to, tag int, b []byte, id uint64) error {
	if err := c.check(to, tag, b); err != nil {
		return fmt.Errorf("mpi: send: %w", err)
	}
	slot, address := c.m.acquire(b)
	return c.started("send", slot, C.call_send(c.m.c, C.int(c.number), address, C.int(len(b)), C.int(to), C.int(tag), C.uint64_t(id), C.int(slot)))
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
	return c.started("receive", slot, C.call_receive(c.m.c, C.int(c.number), address, C.int(len(b)), C.int(from), C.int(tag), C.uint64_t(id), C.int(slot)))
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

func (c *comm) checkCollective(root int, b []byte) error {
	if c.number != 0 {
		return errInter
	}
	return c.check(root, 1, b)
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

func (c *comm) Barrier() error {
	if c.number != 0 {
		return fmt.Errorf("mpi: barrier: %w", errInter)
	}
	return c.m.failed("barrier", C.call_barrier(c.m.c))
}

func (c *comm) Broadcast(b []byte, root int) error {
	if err := c.checkCollective(root, b); err != nil {
		return fmt.Errorf("mpi: broadcast: %w", err)
	}
	var p runtime.Pinner
	defer p.Unpin()
	return c.m.failed("broadcast", C.call_broadcast(c.m.c, pinned(&p, b), C.int(len(b)), C.int(root)))
}

func (c *comm) Gather(b, all []byte, root int) error {
	if err := c.checkCollective(root, b); err != nil {
		return fmt.Errorf("mpi: gather: %w", err)
	}
	if want := len(b) * c.size; c.rank == root && len(all) != want {
		return fmt.Errorf("mpi: gather: %d bytes for %d", len(all), want)
	}
	var p runtime.Pinner
	defer p.Unpin()
	return c.m.failed("gather", C.call_gather(c.m.c, pinned(&p, b), C.int(len(b)), pinned(&p, all), C.int(root)))
}

func (c *comm) Disconnect() error {
	if c.number == 0 {
		return errors.New("mpi: disconnect: the communicator is the job's own")
	}
	return c.m.failed("disconnect", C.call_disconnect(c.m.c, C.int(c.number)))
}

func (c *comm) Abort(status int) { C.call_abort(c.m.c, C.int(status)) }
