package discovery

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/lnet"
)

// TestRandomEvents generates events in any order, with few NIDs and many events, and checks
// the machine after each.
//
// discovery 2.2, 2.3 one, 5.3 sent
func TestRandomEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &randomEvents{t: t, parked: map[Key]bool{}, waits: map[Key]bool{}}
		r.m = New(Config{
			Local: Local{Mode: Mode(r.below(3)), Seq: 1}, Nets: []lnet.Net{r.net(), r.net()}, ResponseTimeout: 50 * time.Second,
		})
		for range rapid.IntRange(0, 60).Draw(t, "events") {
			r.event()
			r.steps(r.below(4))
		}
		r.end()
	})
}

type randomEvents struct {
	t      *rapid.T
	m      *Machine
	now    time.Duration
	key    Key
	open   []RequestID
	pushes []RequestID
	parked map[Key]bool
	waits  map[Key]bool
}

func (r *randomEvents) below(n int) int { return rapid.IntRange(0, n-1).Draw(r.t, "n") }

func (r *randomEvents) yes() bool { return r.below(2) == 1 }

func (r *randomEvents) net() lnet.Net {
	return lnet.Net(lnet.TypeTCP)<<16 | lnet.Net(r.below(3))
}

func (r *randomEvents) nid() lnet.NID {
	switch n := r.below(30); n {
	case 0:
		return lnet.LoopbackNID
	case 1:
		return lnet.AnyNID
	}
	return lnet.NIDFromNumber(r.net(), uint32(r.below(4)))
}

func (r *randomEvents) content() Content {
	c := Content{Info: lnet.PingInfo{Features: lnet.FeatNIStatus | lnet.Features(r.below(8))<<2, Seq: uint32(r.below(5))}}
	if r.below(4) > 0 {
		c.Info.Features |= lnet.FeatMultiRail | lnet.FeatDiscovery
	}
	for range r.below(5) {
		c.Info.NIs = append(c.Info.NIs, lnet.PingNI{NID: r.nid(), Status: lnet.StatusUp})
	}
	c.Size = c.Info.Size()
	switch r.below(10) {
	case 0:
		c.Short = true
	case 1:
		c.Cut = true
	case 2:
		c.Err = errors.New("bad")
	}
	return c
}

// request returns a ping or push that is under way.
func (r *randomEvents) request(from *[]RequestID) (RequestID, bool) {
	if len(*from) == 0 {
		return 0, false
	}
	k := r.below(len(*from))
	id := (*from)[k]
	*from = append((*from)[:k], (*from)[k+1:]...)
	return id, true
}

func (r *randomEvents) event() {
	m := r.m
	o := ConfigureOptions{SingleRail: r.below(4) == 0, Lock: r.below(4) == 0}
	switch r.below(24) {
	case 0, 1, 2, 3:
		r.key++
		r.parked[r.key] = true
		m.Park(r.now, r.nid(), r.key)
	case 4, 5, 6, 7:
		if id, ok := r.request(&r.open); ok {
			m.PingReply(r.now, id, Reply{To: r.nid(), From: r.nid(), Content: r.content()})
		} else if id, ok := r.request(&r.pushes); ok {
			m.PushAcked(r.now, id)
		}
	case 8:
		if id, ok := r.request(&r.open); ok {
			m.Failed(r.now, id, ErrTimedOut)
		} else if id, ok := r.request(&r.pushes); ok {
			m.Refused(r.now, id, ErrTimedOut)
		}
	case 9, 10, 11:
		m.PushReceived(r.now, r.nid(), r.content())
	case 12:
		r.key++
		r.waits[r.key] = true
		if r.yes() {
			m.Discover(r.now, r.nid(), r.key)
		} else {
			m.ForceDiscover(r.now, r.nid(), r.key)
		}
	case 13:
		r.key++
		r.waits[r.key] = true
		if _, ok := m.PrimaryNID(r.now, r.nid(), r.yes(), r.key); ok {
			delete(r.waits, r.key)
		}
	case 14:
		_ = m.Configure(r.now, r.nid(), []lnet.NID{r.nid(), r.nid()}, o)
	case 15:
		_ = m.AddNID(r.now, r.nid(), r.nid(), o)
	case 16:
		_ = m.DeleteNID(r.now, r.nid(), r.nid())
	case 17:
		if r.yes() {
			_ = m.Delete(r.now, r.nid())
		} else {
			_ = m.ForceDelete(r.now, r.nid())
		}
	case 18:
		_, _ = m.AddPeer(r.now, []lnet.NID{r.nid(), r.nid(), r.nid()}, r.yes())
	case 19:
		nid := r.nid()
		if r.yes() {
			_ = m.AddRoute(r.now, nid)
		} else {
			_ = m.RemoveRoute(r.now, nid)
		}
		m.CheckRouter(r.now, nid, r.net())
	case 20:
		m.SetSeq(r.now, m.Local().Seq+1, []lnet.Net{r.net(), r.net()})
	case 21:
		m.SetMode(r.now, Mode(r.below(3)))
	case 22:
		m.Restarted(r.now, r.nid())
		m.NoteAlive(r.now, r.nid())
		m.RemoveNet(r.now, r.net(), []lnet.Net{r.net()})
	case 23:
		m.ForcePushAll(r.now)
		r.now += time.Duration(r.below(100)) * time.Second
	}
	r.look()
}

func (r *randomEvents) steps(n int) {
	for range n {
		r.m.Step(r.now)
		r.look()
	}
}

// look checks the machine and performs its actions.
func (r *randomEvents) look() {
	if err := r.m.check(); err != nil {
		r.t.Fatal(err)
	}
	for _, a := range r.m.Actions() {
		_ = a.String()
		switch a := a.(type) {
		case SendPing:
			r.open = append(r.open, a.ID)
		case SendPush:
			r.pushes = append(r.pushes, a.ID)
		case Release:
			for _, k := range a.Keys {
				if !r.parked[k] {
					r.t.Fatalf("key %d is released, but does not wait", k)
				}
				delete(r.parked, k)
			}
		case Wake:
			if !r.waits[a.Waiter] {
				r.t.Fatalf("caller %d is woken, but does not wait", a.Waiter)
			}
			delete(r.waits, a.Waiter)
		}
	}
}

// end fails all requests under way. After that, no caller and no message may wait.
func (r *randomEvents) end() {
	if r.yes() {
		r.m.Stop(r.now)
	}
	for n := 0; len(r.open)+len(r.pushes) > 0 || r.m.HasWork(); n++ {
		if n > 10_000 {
			r.t.Fatal("the machine does not come to rest")
		}
		for r.m.HasWork() {
			r.steps(1)
			if n++; n > 10_000 {
				r.t.Fatal("the machine does not come to rest")
			}
		}
		for _, from := range []*[]RequestID{&r.open, &r.pushes} {
			if id, ok := r.request(from); ok {
				r.m.Failed(r.now, id, ErrTimedOut)
				r.look()
			}
		}
	}
	if len(r.parked)+len(r.waits) > 0 {
		r.t.Fatal(fmt.Sprintf("left: %v parked, %v waiting", r.parked, r.waits))
	}
}
