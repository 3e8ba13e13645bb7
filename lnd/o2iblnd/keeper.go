package o2iblnd

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnet"
)

// keeper is an interface's goroutine for work that may take long or is due at a certain time. It connects to
// peers, destroys queue pairs, enforces timeouts, and retries messages that wait for memory.
type keeper struct {
	mu    sync.Mutex // guards tasks
	tasks []task
	wake  chan struct{} // wakes the keeper because of a task or new work; has room for one token

	// resting means that no connection has work in progress, so that the keeper sleeps until a keepalive is
	// due. New work wakes it.
	resting atomic.Bool
}

// task is work that another goroutine leaves to the keeper.
type task struct {
	kind taskKind
	p    *peer
	c    *conn
	dev  *device
}

type taskKind uint8

const (
	taskDoubts  taskKind = iota // probe peers in doubt
	taskTick                    // do the periodic work now
	taskDial                    // connect to p
	taskDestroy                 // destroy c, which has ended
	taskFlush                   // send the messages that wait for a connection to p
	taskMemory                  // retry what waits for memory
	taskCalled                  // the attempt of c is over: the connection is established
	taskBind                    // leave a defunct listener
	taskRelease                 // remove the program's registrations from dev
	taskLink                    // check the link, and look for a device
	taskStop                    // end the keeper
)

// keepPeriod is how often the keeper checks connections while they have work in progress.
const keepPeriod = 250 * time.Millisecond

// do adds a task and wakes the keeper. Locks may be held.
func (k *keeper) do(t task) {
	k.mu.Lock()
	k.tasks = append(k.tasks, t)
	k.mu.Unlock()
	k.wakeTask()
}

// wakeResting wakes the keeper if it is resting, because a connection has new work. Locks may be held.
func (k *keeper) wakeResting() {
	if k.resting.Load() && k.resting.Swap(false) {
		k.wakeTask()
	}
}

func (k *keeper) wakeTask() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

func (k *keeper) take() []task {
	k.mu.Lock()
	defer k.mu.Unlock()
	tasks := k.tasks
	k.tasks = nil
	return tasks
}

// keep is the keeper's goroutine. It ends after taskStop.
func (i *Interface) keep() {
	defer close(i.kept)
	timer := time.NewTimer(keepPeriod)
	timer.Stop()
	defer timer.Stop()
	armed, stop := false, false
	pause := keepPeriod
	for {
		select {
		case <-i.keeper.wake:
			if pause != keepPeriod { // the keeper was resting
				i.keeper.resting.Store(false)
				armed, pause = false, keepPeriod
			}
		case <-timer.C:
			armed = false
			i.tick(time.Now())
			pause = i.rest(time.Now())
		}
		for _, t := range i.keeper.take() {
			stop = i.perform(t) || stop
		}
		if stop {
			return
		}
		if !armed && i.busy() {
			timer.Reset(pause)
			armed = true
		}
	}
}

func (i *Interface) perform(t task) (stop bool) {
	switch t.kind {
	case taskDoubts:
		i.SettleDoubts(time.Now())
	case taskTick:
		i.tick(time.Now())
	case taskDial:
		i.dialNext(t.p)
	case taskDestroy:
		t.c.destroy()
		i.Count.Closes.Add(1)
		i.called(t.c)
	case taskCalled:
		i.called(t.c)
	case taskFlush:
		t.p.flushLive()
	case taskMemory:
		i.serveMemoryWaiters(time.Now())
	case taskBind:
		i.unbind()
	case taskRelease:
		i.releaseDevice(t.dev)
	case taskLink:
		if !i.Closed() {
			i.CheckLink()
			i.absent, i.nextBind = false, time.Time{}
			i.rebind(time.Now())
		}
	case taskStop:
		return true
	}
	return false
}

// busy reports whether the keeper needs its timer: the interface has peers, something waits for memory, or the
// interface looks for a device.
func (i *Interface) busy() bool {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.Len() > 0 || len(i.memoryWaiters) > 0 || i.bound == nil && !i.absent
}

// tick does the periodic work of the keeper. If the keeper did not run for a while, tick records that, so that
// this time does not count as a stall of a peer.
func (i *Interface) tick(now time.Time) {
	if now.Sub(i.ticked) > 2*keepPeriod {
		i.resumed = now
	}
	i.ticked = now
	for _, p := range i.Of(lnet.NID{}) {
		p.tick(now)
	}
	i.serveMemoryWaiters(now)
	i.rebind(now)
}

// flushLive submits the messages that wait for a connection to a connection that carries messages, if there is
// one.
func (p *peer) flushLive() {
	p.Lock()
	c := p.live()
	p.Unlock()
	if c == nil {
		return
	}
	p.flush(c)
	p.resume()
	p.Unlock()
	p.i.Out.Run()
}

// tick does the periodic work for one peer.
func (p *peer) tick(now time.Time) {
	p.Lock()
	list := p.all()
	late := p.expire(now)
	var due int
	kept := p.redials[:0]
	for _, at := range p.redials {
		if at.After(now) {
			kept = append(kept, at)
		} else {
			due++
		}
	}
	p.redials = kept
	if !p.needed() {
		p.cancelCalls()
	}
	for range due {
		if len(p.conns)+len(p.ready) > 0 || p.Waiting.Len() == 0 || p.i.Closed() {
			p.spread.Failed()
		} else {
			p.i.keeper.do(task{kind: taskDial, p: p})
		}
	}
	p.putDown()
	p.i.Put(late, p.i.Error("send", p.ID.NID, lnd.StatusNetworkTimeout, peering.ErrWaited))
	p.Unlock()
	p.i.Out.Run()
	for _, c := range list {
		c.tick(now)
	}
	p.i.SettleDoubt(p, now)
	p.checkStall(now)
	p.i.Forget(p)
}

// expire removes and returns the messages that have waited too long for a connection. When the last of them has
// been removed, it cancels the attempts to connect that are to begin after a pause. p is locked.
func (p *peer) expire(now time.Time) []*lnd.Tx {
	late := p.i.Late(p, now, protocol.WaitTimeout(p.i.Timeout()))
	if len(late) > 0 && p.Waiting.Len() == 0 {
		p.dropRedials()
	}
	return late
}

// memoryWaiter waits for registered memory: either a message to be sent (m), or an arrival with its placement
// (r).
type memoryWaiter struct {
	m     *lnd.Tx
	r     *rx
	since time.Time
}

// waitForMemory queues h until memory is available. If memory was released just before, the next tick finds it.
func (i *Interface) waitForMemory(h memoryWaiter) {
	i.counters.memoryWaits.Add(1)
	i.mu.Lock()
	i.memoryWaiters = append(i.memoryWaiters, h)
	i.mu.Unlock()
	if i.Closed() {
		i.keeper.do(task{kind: taskMemory})
	}
}

// serveMemoryWaiters retries everything that waits for memory. An entry for which there is still too little
// memory keeps its position, before later messages to the same peer, and its start time. An entry that has
// waited too long fails.
func (i *Interface) serveMemoryWaiters(now time.Time) {
	i.mu.Lock()
	list := i.memoryWaiters
	i.memoryWaiters = nil
	i.mu.Unlock()
	closing := i.Closed()
	var again []memoryWaiter
	var waiting map[lnet.NID]bool
	for _, h := range list {
		late := now.Sub(h.since) >= i.Timeout()
		switch {
		case h.r != nil && (late || closing || h.r.c.dead.Load()):
			h.r.answer(errMemoryTime)
		case h.r != nil:
			if err := h.r.ready(); errors.Is(err, errNoMemory) {
				again = append(again, h)
			} else {
				h.r.answer(err)
			}
		case closing:
			i.Out.Add(peering.Failed(h.m, i.Error("send", h.m.To.NID, lnd.StatusRemoteDropped, peering.ErrClosing)))
		case late:
			i.Out.Add(peering.Failed(h.m, i.Error("send", h.m.To.NID, lnd.StatusLocalTimeout, errMemoryTime)))
		case waiting[h.m.To.NID]:
			again = append(again, h)
		default:
			to := h.m.To.NID
			i.Submit(h.m, process(to))
			if i.removeMemoryWaiter(h.m) {
				again = append(again, h)
				if waiting == nil {
					waiting = make(map[lnet.NID]bool)
				}
				waiting[to] = true
			}
		}
	}
	i.requeueMemoryWaiters(again)
}

// requeueMemoryWaiters puts entries back into the queue, before those that were added since.
func (i *Interface) requeueMemoryWaiters(list []memoryWaiter) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.memoryWaiters = append(list, i.memoryWaiters...)
}

// removeMemoryWaiter removes the message m from the queue of those that wait for memory. It returns false if
// the message is not in the queue.
func (i *Interface) removeMemoryWaiter(m *lnd.Tx) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	k := slices.IndexFunc(i.memoryWaiters, func(h memoryWaiter) bool { return h.m == m })
	if k >= 0 {
		i.memoryWaiters = slices.Delete(i.memoryWaiters, k, k+1)
	}
	return k >= 0
}
