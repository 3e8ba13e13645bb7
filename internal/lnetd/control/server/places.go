package server

import (
	"sync"
	"syscall"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// places limits the concurrent requests of one kind for each user.
type places struct {
	mu    sync.Mutex  // guards taken
	taken map[int]int // by UID
}

// within calls do if the user is below the limit. If p is nil, there is no limit.
func (p *places) within(user int, do func() (any, *api.Fault)) (any, *api.Fault) {
	if p == nil {
		return do()
	}
	if !p.take(user) {
		return nil, &api.Fault{
			Code: api.CodeBusy, Errno: -int(syscall.EBUSY),
			Text: "too many requests at once", Remedy: "try again later",
		}
	}
	defer p.give(user)
	return do()
}

func (p *places) take(user int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken[user] >= requestsAtOnce {
		return false
	}
	if p.taken == nil {
		p.taken = map[int]int{}
	}
	p.taken[user]++
	return true
}

func (p *places) give(user int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken[user]--; p.taken[user] == 0 {
		delete(p.taken, user)
	}
}
