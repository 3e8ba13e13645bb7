package fuzz

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnet"
)

// FuzzDiscovery drives a discovery machine with bytes, and tracks its actions like a node. Each NID must
// belong to at most one peer, Views must agree with that, and every waiting message and caller must be
// released exactly once. When there are no more answers, the machine must become idle.
func FuzzDiscovery(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20})
	for seed := range uint64(24) {
		random := rand.New(rand.NewPCG(seed, 0))
		b := make([]byte, 600)
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d := &discovering{
			t: t, bytes: b[:min(len(b), 4096)],
			attached: map[lnet.NID]discovery.PeerID{}, views: map[discovery.PeerID]*discovery.View{},
			parked: map[discovery.Key]bool{}, waiting: map[discovery.Key]bool{},
		}
		d.machine = discovery.New(discovery.Config{
			Local: discovery.Local{Mode: discovery.Mode(d.byte() % 3), Seq: 1}, Nets: []lnet.Net{d.net()},
		})
		for len(d.bytes) > 0 {
			d.event()
			for range d.byte() & 3 {
				d.machine.Step(d.now)
			}
			d.look()
		}
		d.rest()
		d.end()
	})
}

type discovering struct {
	t        *testing.T
	bytes    []byte
	machine  *discovery.Machine
	now      time.Duration
	key      discovery.Key
	pings    []discovery.RequestID
	pushes   []discovery.RequestID
	attached map[lnet.NID]discovery.PeerID
	views    map[discovery.PeerID]*discovery.View
	parked   map[discovery.Key]bool
	waiting  map[discovery.Key]bool
}

func (d *discovering) byte() byte {
	if len(d.bytes) == 0 {
		return 0
	}
	b := d.bytes[0]
	d.bytes = d.bytes[1:]
	return b
}

func (d *discovering) net() lnet.Net { return lnet.Net(lnet.TypeTCP)<<16 | lnet.Net(d.byte()%3) }

// nid draws one of a few NIDs, so that peers share some.
func (d *discovering) nid() lnet.NID {
	b := d.byte()
	net := lnet.Net(lnet.TypeTCP)<<16 | lnet.Net(b&3)
	switch b >> 2 {
	case 62:
		return lnet.LoopbackNID
	case 63:
		return lnet.AnyNID
	}
	return lnet.NIDFromNumber(net, uint32(b>>2&7))
}

// content reads ping info from the bytes, as an untrusted peer may send it.
func (d *discovering) content() discovery.Content {
	b := d.byte()
	info := lnet.PingInfo{
		Features: lnet.Features(b) | lnet.FeatNIStatus, Seq: uint32(d.byte() & 7),
	}
	if b&0x80 == 0 {
		info.Features |= lnet.FeatMultiRail | lnet.FeatDiscovery
	}
	for range d.byte() & 7 {
		info.NIs = append(info.NIs, lnet.PingNI{NID: d.nid(), Status: lnet.StatusUp})
	}
	c := discovery.Content{Info: info, Size: info.Size()}
	switch d.byte() & 31 {
	case 0:
		c.Short = true
	case 1:
		c.Cut = true
	case 2:
		c.Err = errors.New("bad")
	}
	return c
}

// take draws a ping or push that is in progress, or one that was canceled.
func (d *discovering) take(from *[]discovery.RequestID) discovery.RequestID {
	if len(*from) == 0 {
		return discovery.RequestID(d.byte()) // may or may not be in progress
	}
	k := int(d.byte()) % len(*from)
	id := (*from)[k]
	*from = slices.Delete(*from, k, k+1)
	return id
}

func (d *discovering) newKey(book map[discovery.Key]bool) discovery.Key {
	d.key++
	book[d.key] = true
	return d.key
}

func (d *discovering) event() {
	m, b := d.machine, d.byte()
	o := discovery.ConfigureOptions{SingleRail: b&0x80 != 0, Lock: b&0x40 != 0}
	switch b & 31 {
	case 0, 1, 2:
		nid := d.nid()
		m.Park(d.now, nid, d.newKey(d.parked))
	case 3, 4, 5, 6:
		id := d.take(&d.pings)
		m.PingReply(d.now, id, discovery.Reply{To: d.nid(), From: d.nid(), Content: d.content()})
	case 7, 8:
		m.PushAcked(d.now, d.take(&d.pushes))
	case 9:
		m.Failed(d.now, d.take(&d.pings), discovery.ErrTimedOut)
	case 10:
		m.Refused(d.now, d.take(&d.pushes), discovery.ErrTimedOut)
	case 11, 12, 13:
		m.PushReceived(d.now, d.nid(), d.content())
	case 14:
		nid := d.nid()
		m.Discover(d.now, nid, d.newKey(d.waiting))
	case 15:
		nid := d.nid()
		m.ForceDiscover(d.now, nid, d.newKey(d.waiting))
	case 16:
		nid := d.nid()
		key := d.newKey(d.waiting)
		if _, ok := m.PrimaryNID(d.now, nid, o.Lock, key); ok {
			delete(d.waiting, key)
		}
	case 17:
		d.configure(o)
	case 18:
		_ = m.AddNID(d.now, d.nid(), d.nid(), o)
	case 19:
		_ = m.DeleteNID(d.now, d.nid(), d.nid())
	case 20:
		_ = m.ForceDelete(d.now, d.nid())
	case 21:
		_, _ = m.AddPeer(d.now, []lnet.NID{d.nid(), d.nid(), d.nid()}, o.Lock)
	case 22:
		_ = m.AddRoute(d.now, d.nid())
	case 23:
		_ = m.RemoveRoute(d.now, d.nid())
	case 24:
		m.CheckRouter(d.now, d.nid(), d.net())
	case 25:
		m.SetSeq(d.now, uint32(d.byte()), []lnet.Net{d.net()})
	case 26:
		m.SetMode(d.now, discovery.Mode(d.byte()%3))
	case 27:
		m.RemoveNet(d.now, d.net(), []lnet.Net{d.net()})
	case 28:
		if nid := d.nid(); o.Lock {
			m.NoteAlive(d.now, nid)
		} else {
			m.Restarted(d.now, nid)
		}
	case 29:
		m.ForcePushAll(d.now)
	case 30:
		d.now += time.Duration(d.byte()) * time.Second
	case 31:
		m.FindOrCreate(d.now, d.nid())
		_ = m.IsDiscovered(d.now, d.nid())
	}
}

// configure configures a peer. Either everything takes effect or nothing.
func (d *discovering) configure(o discovery.ConfigureOptions) {
	primary, others := d.nid(), []lnet.NID{d.nid(), d.nid()}
	d.look()
	err := d.machine.Configure(d.now, primary, others, o)
	if err == nil {
		return
	}
	var refused *discovery.PeerError
	if !errors.As(err, &refused) {
		d.t.Fatalf("%v is not of *PeerError", err)
	}
	if a := d.machine.Actions(); len(a) > 0 {
		d.t.Fatalf("refused (%v), but: %v", err, a)
	}
}

// look performs the actions of the machine.
func (d *discovering) look() {
	for _, a := range d.machine.Actions() {
		switch a := a.(type) {
		case discovery.SendPing:
			d.pings = append(d.pings, a.ID)
		case discovery.SendPush:
			d.pushes = append(d.pushes, a.ID)
		case discovery.Attach:
			if d.attached[a.NID] != a.From {
				d.t.Fatalf("%v, but it belongs to %d", a, d.attached[a.NID])
			}
			d.attached[a.NID] = a.Peer
		case discovery.Detach:
			if d.attached[a.NID] != a.Peer {
				d.t.Fatalf("%v, but it belongs to %d", a, d.attached[a.NID])
			}
			delete(d.attached, a.NID)
		case discovery.ViewChanged:
			d.views[a.View.ID] = a.View
		case discovery.Gone:
			delete(d.views, a.View.ID)
		case discovery.Release:
			for _, k := range a.Keys {
				if !d.parked[k] {
					d.t.Fatalf("message %d does not wait", k)
				}
				delete(d.parked, k)
			}
		case discovery.Wake:
			if !d.waiting[a.Waiter] {
				d.t.Fatalf("caller %d does not wait", a.Waiter)
			}
			delete(d.waiting, a.Waiter)
		}
	}
	d.compare()
}

// compare checks that the tracked state agrees with the Views, and these with the machine.
func (d *discovering) compare() {
	nids := 0
	for id, v := range d.views {
		nids += len(v.NIDs)
		for _, nid := range v.NIDs {
			if d.attached[nid] != id {
				d.t.Fatalf("view %v: %s belongs to %d", v, nid, d.attached[nid])
			}
		}
		if !slices.Contains(v.NIDs, v.Primary) {
			d.t.Fatalf("view %v: the primary NID is none of its NIDs", v)
		}
	}
	if nids != len(d.attached) || len(d.views) != d.machine.Len() {
		d.t.Fatalf("%d NIDs, %d in views; %d peers, %d views", len(d.attached), nids, d.machine.Len(), len(d.views))
	}
	for v := range d.machine.Peers() {
		if d.views[v.ID] != v {
			d.t.Fatalf("published: %v\nis: %v", d.views[v.ID], v)
		}
	}
}

// rest makes everything fail that is in progress or starts, while time passes.
func (d *discovering) rest() {
	for range 20_000 {
		d.look()
		failed := slices.Concat(d.pings, d.pushes)
		d.pings, d.pushes = nil, nil
		for _, id := range failed {
			d.machine.Failed(d.now, id, discovery.ErrTimedOut)
		}
		if len(failed) == 0 && !d.machine.HasWork() {
			due, ok := d.machine.Due()
			if !ok {
				return
			}
			d.now = max(d.now, due)
		}
		d.machine.Step(d.now)
	}
	d.t.Fatal("nobody answers, and the machine does not come to rest")
}

// end stops the machine.
func (d *discovering) end() {
	d.machine.Stop(d.now)
	for range 10_000 {
		d.look()
		if !d.machine.HasWork() {
			break
		}
		d.machine.Step(d.now)
	}
	if d.machine.HasWork() || len(d.parked)+len(d.waiting) > 0 {
		d.t.Fatalf("left: %v parked, %v waiting", d.parked, d.waiting)
	}
}
