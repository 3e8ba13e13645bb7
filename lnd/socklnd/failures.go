package socklnd

import (
	"sync"

	"github.com/lnetd/lnetd/lnd"
)

// failures completes failed messages one after the other. The goroutine that adds the first also
// completes those that are added meanwhile. So if a completion sends again and fails again, the result
// is iteration, not recursion.
type failures struct {
	mu      sync.Mutex // guards queue and running
	idle    sync.Cond
	queue   []failure
	running bool
}

type failure struct {
	m   *lnd.Tx
	err error
}

// add completes m with err, in this goroutine or in the one that is already completing.
func (f *failures) add(m *lnd.Tx, err error) {
	f.mu.Lock()
	f.queue = append(f.queue, failure{m, err})
	f.run()
}

// addAll is like add for several messages with one error.
func (f *failures) addAll(ms []*lnd.Tx, err error) {
	if len(ms) == 0 {
		return
	}
	f.mu.Lock()
	for _, m := range ms {
		f.queue = append(f.queue, failure{m, err})
	}
	f.run()
}

// run drains the queue unless another goroutine does. It is called with mu held and releases it.
func (f *failures) run() {
	if f.running {
		f.mu.Unlock()
		return
	}
	f.running = true
	for len(f.queue) > 0 {
		batch := f.queue
		f.queue = nil
		f.mu.Unlock()
		for _, x := range batch {
			x.m.Done.Sent(x.m, x.err)
		}
		f.mu.Lock()
	}
	f.running = false
	if f.idle.L != nil {
		f.idle.Broadcast()
	}
	f.mu.Unlock()
}

// wait returns when no completion is running.
func (f *failures) wait() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.idle.L == nil {
		f.idle.L = &f.mu
	}
	for f.running {
		f.idle.Wait()
	}
}
