package coretest

import (
	"context"
	"runtime"
	"sync"

	"github.com/lnetd/lnetd/transport"
)

// rooms records the number of completions that the engine has requested room for, by address of the latest
// TM.
type rooms struct {
	mu sync.Mutex
	of map[transport.Address]int
}

func (r *rooms) set(a transport.Address, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of[a] = n
}

func (r *rooms) get(a transport.Address) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.of[a]
}

// roomCore is a Core that records the requests for room.
type roomCore struct {
	transport.Core
	rooms *rooms
}

func (c roomCore) Open(ctx context.Context) (transport.CoreDomain, error) {
	d, err := c.Core.Open(ctx)
	if err != nil {
		return nil, err
	}
	return roomDomain{d, c.rooms}, nil
}

type roomDomain struct {
	transport.CoreDomain
	rooms *rooms
}

func (d roomDomain) StartTM(ctx context.Context, a transport.Address, completions int) (transport.CoreTM, error) {
	tm, err := d.CoreDomain.StartTM(ctx, a, completions)
	if err != nil {
		return nil, err
	}
	d.rooms.set(tm.Address(), completions)
	return roomTM{tm, d.rooms}, nil
}

type roomTM struct {
	transport.CoreTM
	rooms *rooms
}

// Submit yields before and after the call, so that others run while the result is not yet known.
func (tm roomTM) Submit(ops []transport.Op) (int, error) {
	runtime.Gosched()
	n, err := tm.CoreTM.Submit(ops)
	runtime.Gosched()
	return n, err
}

func (tm roomTM) Grow(n int) error {
	err := tm.CoreTM.Grow(n)
	if err == nil {
		tm.rooms.set(tm.Address(), n)
	}
	return err
}
