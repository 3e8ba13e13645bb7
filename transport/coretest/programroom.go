package coretest

import (
	"context"
	"runtime"
	"sync"

	"github.com/lnetd/lnetd/transport"
)

// rooms records for each address the number of completions for which the engine has requested room from the
// Core. If several TMs have used the address, it is the number of the latest.
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

// roomCore is a Core that records the requests for room in rooms.
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

// Submit yields before and after the call of the Core, so that other goroutines run while the engine does not
// know the result yet.
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
