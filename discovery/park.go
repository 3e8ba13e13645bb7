package discovery

import (
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// waiter is a caller that waits for the end of a round with the peer that has nid.
type waiter struct {
	key Key
	nid lnet.NID
}

// Park keeps a message to a NID until its peer is known (discovery 5.1, 5.3). The caller
// must call it if MustWait of the peer's View returns true. The Machine later returns the
// key in exactly one Release. This Release may come immediately, because the peer may have
// changed since the caller read the View.
func (m *Machine) Park(now time.Duration, nid lnet.NID, key Key) {
	m.beginEvent(now)
	p := m.findOrCreate(nid)
	switch {
	case m.stopped:
		m.enqueueRelease([]Key{key}, ErrClosed)
	case p == nil:
		m.enqueueRelease([]Key{key}, ErrNoPeer)
	case !p.state.mustWait(m.local, p.ackedSeq, p.pushUnacked):
		m.enqueueRelease([]Key{key}, nil)
		if p.retriesEnded { // MustWait may have returned true because retries had ended
			m.enqueue(p)
		}
	default:
		m.enqueue(p)
		p.work.parked = append(p.work.parked, key)
	}
	m.endEvent()
}

func (m *Machine) enqueueRelease(keys []Key, err error) {
	if len(keys) == 0 {
		return
	}
	m.released = append(m.released, Release{keys, err})
}

// release emits Release actions for some of the messages that no longer wait.
func (m *Machine) release() {
	for room := releaseChunk; room > 0 && len(m.released) > 0; {
		r := &m.released[0]
		n := min(room, len(r.Keys))
		room -= n
		m.emit(Release{r.Keys[:n:n], r.Err})
		if r.Keys = r.Keys[n:]; len(r.Keys) == 0 {
			m.released[0] = Release{}
			m.released = m.released[1:]
		}
	}
	if len(m.released) == 0 {
		m.released = nil
	}
}

// wakeWaiters ends the wait of all callers for a round with p, whose result is err. After
// a successful round p is up to date, so no caller needs to wait for another one
// (discovery 6.8).
func (m *Machine) wakeWaiters(p *peer, err error) {
	for _, w := range p.work.waiters {
		m.ready(w, err)
	}
	p.work.waiters = nil
}

func (m *Machine) ready(w waiter, err error) {
	a := Wake{Waiter: w.key, NID: w.nid, Primary: w.nid, Err: err}
	if i := m.nis[w.nid]; i != nil && err == nil {
		a.Primary = i.peer.primary
	}
	m.wakes = append(m.wakes, a)
}

// moveWaiter handles a waiting caller whose peer was removed. The caller waits for the NID
// and not for the peer, so it now waits for a round with the peer that has the NID. That
// peer is created if necessary.
func (m *Machine) moveWaiter(w waiter) {
	i := m.nis[w.nid]
	switch {
	case m.stopped:
		m.ready(w, ErrClosed)
		return
	case i == nil:
		m.enqueue(m.create(w.nid))
		i = m.nis[w.nid]
	case !i.peer.state.Has(Discovering):
		m.ready(w, nil)
		return
	}
	i.peer.work.waiters = append(i.peer.work.waiters, w)
}
