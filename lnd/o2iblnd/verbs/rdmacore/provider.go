//go:build o2ib

package rdmacore

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -Werror
#cgo LDFLAGS: -ldl
#include "o2.h"
#cgo noescape o2_cq_poll
#cgo nocallback o2_cq_poll
#cgo noescape o2_post
#cgo nocallback o2_post
*/
import "C"

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
)

// provider implements verbs.Provider.
type provider struct {
	polls, posts, sleeps, events, others atomic.Uint64

	tokens   atomic.Uint64 // the last token; tokens identify IDs in C
	channels atomic.Int64  // number of open channels
	mu       sync.Mutex
	devices  map[C.uintptr_t]*device // by the address of the library's context
}

var loading sync.Mutex // held while the libraries are loaded into a table in C

// Open loads rdma-core and checks whether the kernel lets this process use RDMA. If not, it returns
// verbs.ErrNoLibrary or verbs.ErrNoRDMA.
func Open() (verbs.Provider, error) {
	loading.Lock()
	defer loading.Unlock()
	if C.o2_load() < 0 {
		return nil, verbs.Wrap(verbs.ErrNoLibrary, "open")
	}
	releaseRemoved()
	p := &provider{devices: make(map[C.uintptr_t]*device)}
	c, err := p.OpenChannel()
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", verbs.ErrNoRDMA, err)
	}
	return p, c.Close()
}

// Live returns the number of objects of the libraries that exist in this process. Tests use it to find leaks.
func Live() int { return int(C.o2_live()) }

func (p *provider) Crossings() verbs.Crossings {
	return verbs.Crossings{Polls: p.polls.Load(), Posts: p.posts.Load(), Sleeps: p.sleeps.Load(), Events: p.events.Load(), Others: p.others.Load()}
}
