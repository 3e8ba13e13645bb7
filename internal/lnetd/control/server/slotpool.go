package server

import (
	"sync"
	"syscall"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// slotPool limits the number of concurrent requests of one kind for each user.
type slotPool struct {
	mu   sync.Mutex  // guards used
	used map[int]int // number of requests in progress, by UID
}

// acquireWithin calls do if the user has fewer than maxRequests requests in progress, and otherwise returns a
// fault. If p is nil, there is no limit.
func (p *slotPool) acquireWithin(user int, do func() (any, *api.Fault)) (any, *api.Fault) {
	if p == nil {
		return do()
	}
	if !p.acquire(user) {
		return nil, &api.Fault{
			Code: api.CodeBusy, Errno: -int(syscall.EBUSY),
			Text: "too many requests at once", Remedy: "try again later",
		}
	}
	defer p.release(user)
	return do()
}

func (p *slotPool) acquire(user int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used[user] >= maxRequests {
		return false
	}
	if p.used == nil {
		p.used = map[int]int{}
	}
	p.used[user]++
	return true
}

func (p *slotPool) release(user int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used[user]--; p.used[user] == 0 {
		delete(p.used, user)
	}
}
