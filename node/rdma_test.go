package node_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd"
	verbsfabric "github.com/lnetd/lnetd/lnd/o2iblnd/verbs/fabric"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/memory"
	"github.com/lnetd/lnetd/node"
)

// rdmaPair is two nodes with one NI each, on a fabric with RDMA whose devices report forbidden accesses.
type rdmaPair struct {
	pair   // its fabric is not used
	t      *testing.T
	fabric *verbsfabric.Fabric
	hosts  map[*node.Node]*rdmaHost
}

// rdmaHost is a node's host on the fabric, with a device for each NI.
type rdmaHost struct {
	*verbsfabric.Host
	driver  *o2iblnd.Driver
	devices map[lnet.NID]*verbsfabric.Device
}

func onRDMA(t *testing.T, run func(t *testing.T, p *rdmaPair)) {
	synctest.Test(t, func(t *testing.T) {
		f := verbsfabric.New(verbsfabric.Config{Report: func(err error) { t.Error(err) }})
		t.Cleanup(f.Close)
		p := &rdmaPair{t: t, fabric: f, hosts: make(map[*node.Node]*rdmaHost)}
		a, b := newRDMAHost(t, f.Host("a")), newRDMAHost(t, f.Host("b"))
		p.a, p.ida = newNode(t, node.Config{}), process(t, "10.0.0.1@o2ib")
		p.b, p.idb = newNode(t, node.Config{}), process(t, "10.0.0.2@o2ib")
		p.hosts[p.a], p.hosts[p.b] = a, b
		p.addNI(p.a, p.ida.NID)
		p.addNI(p.b, p.idb.NID)
		run(t, p)
	})
}

// newRDMAHost opens a driver on a host. At the end of the test, it must have returned all its memory.
func newRDMAHost(t *testing.T, h *verbsfabric.Host) *rdmaHost {
	t.Helper()
	proc := h.Open()
	c := o2iblnd.DefaultConfig()
	c.Provider, c.Host, c.Wall = proc, h, proc.Wall
	c.Keepalive = time.Second // an idle connection that breaks is noticed soon
	d, err := o2iblnd.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(d.Close(), proc.Close()); err != nil {
			t.Error(err)
		}
	})
	return &rdmaHost{h, d, make(map[lnet.NID]*verbsfabric.Device)}
}

// addNI adds an NI to a node, and its device to the host at the first time.
func (p *rdmaPair) addNI(n *node.Node, nid lnet.NID) {
	p.t.Helper()
	h := p.hosts[n]
	if h.devices[nid] == nil {
		h.devices[nid] = h.AddDevice(nid.IP().String())
	}
	if _, err := n.AddNI(context.Background(), h.driver, lnd.Config{Net: nid.Net(), NID: nid}); err != nil {
		p.t.Fatal(err)
	}
}

func (p *rdmaPair) register(n *node.Node, b []byte) *memory.Region {
	p.t.Helper()
	r, err := n.Register(context.Background(), b)
	if err != nil {
		p.t.Fatal(err)
	}
	return r
}

// registered returns the number of registrations on the device of one of a's NIs.
func (p *rdmaPair) registered(nid lnet.NID) int {
	d := p.hosts[p.a].devices[nid]
	if d == nil {
		return 0
	}
	return d.Registered()
}

// counter returns a counter of the driver of one of n's NIs.
func (p *rdmaPair) counter(n *node.Node, nid lnet.NID, name string) uint64 {
	p.t.Helper()
	for _, i := range n.NIs() {
		if i.NID == nid {
			for _, c := range i.Driver {
				if c.Name == name {
					return c.Value
				}
			}
		}
	}
	p.t.Fatalf("%s has no counter %s", nid, name)
	return 0
}

// scattered returns memory in three pieces, all of them in a region, or every other one.
func scattered(r *memory.Region, off, n int, whole bool) memory.Vector {
	v := memory.Vector{Offset: 3, Length: n}
	for k, cut := range []int{n / 3, n / 2, n} {
		s := r.Segment(off+k*n, cut)
		if !whole && k == 1 {
			s = memory.Segment{Bytes: make([]byte, cut)}
		}
		v.Segments = append(v.Segments, s)
	}
	return v
}

func contents(v memory.Vector) []byte {
	b := make([]byte, v.Length)
	v.CopyTo(b)
	return b
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	for k := range b {
		b[k] = byte(k*7 + k>>8)
	}
	return b
}

// PUTs with ACK and GETs, from and to memory that is registered, partly registered, and
// unregistered. With registered memory the drivers' pools are not used.
func TestRDMAMovesWhatIsRegistered(t *testing.T) {
	for _, size := range []int{100, 3976, 3977, 300_000, lnet.MTU} {
		for _, how := range []string{"all", "part", "none"} {
			t.Run(fmt.Sprint(size, " ", how), func(t *testing.T) {
				onRDMA(t, func(t *testing.T, p *rdmaPair) {
					memoryOf := func(n *node.Node) memory.Vector {
						if how == "none" {
							return memory.Of(make([]byte, size))
						}
						return scattered(p.register(n, make([]byte, 3*size+10)), 5, size, how == "all")
					}
					source, target, back := memoryOf(p.a), memoryOf(p.b), memoryOf(p.a)
					source.CopyFrom(randomBytes(size))
					var at, from recorder
					attach(t, p.b, portals.Entry{Portal: 5}, portals.MD{
						Memory: target, Threshold: portals.Unlimited,
						Options: portals.OpPut | portals.OpGet | portals.ManageRemote, Handler: &at,
					})
					put(t, p.a, bind(t, p.a, portals.MD{Memory: source, Threshold: 2, Unlink: true, Handler: &from}),
						p.idb, node.PutOptions{Portal: 5, Ack: true})
					synctest.Wait()
					h := bind(t, p.a, portals.MD{Memory: back, Threshold: 2, Unlink: true, Handler: &from})
					if err := p.a.Get(h, p.idb, node.GetOptions{Portal: 5}); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					for _, e := range append(at.take(), from.take()...) {
						if e.Err != nil || e.Length != size {
							t.Errorf("%v: %d bytes, %v", e.Type, e.Length, e.Err)
						}
					}
					if !bytes.Equal(contents(target), randomBytes(size)) || !bytes.Equal(contents(back), randomBytes(size)) {
						t.Error("what has arrived is not what was sent")
					}
					p.checkWay(size, how)
				})
			})
		}
	}
}

// checkWay checks how a PUT and a GET of that size were transferred.
func (p *rdmaPair) checkWay(size int, how string) {
	p.t.Helper()
	byRDMA := uint64(0)
	if size > 3976 {
		byRDMA = 1
	}
	count := func(name string) uint64 { return p.counter(p.a, p.ida.NID, name) + p.counter(p.b, p.idb.NID, name) }
	if puts, gets := count("rdma_puts_total"), count("rdma_gets_total"); puts != byRDMA || gets != byRDMA {
		p.t.Errorf("%d PUTs and REPLYs and %d GETs by RDMA, want %d each", puts, gets, byRDMA)
	}
	direct, bounced := 4*byRDMA, uint64(0)
	if how != "all" {
		direct, bounced = bounced, direct
	}
	if d, b := count("direct_total"), count("bounced_total"); d != direct || b != bounced {
		p.t.Errorf("memory was taken as it is %d times and copied %d times, want %d and %d", d, b, direct, bounced)
	}
}

// NIs are added and removed while a region exists. Each registers it while it is there.
func TestRegionsOfNIsThatComeAndGo(t *testing.T) {
	onRDMA(t, func(t *testing.T, p *rdmaPair) {
		ctx := context.Background()
		first, second := p.register(p.a, make([]byte, 9000)), p.register(p.a, make([]byte, 100))
		late := parseNID(t, "10.0.0.3@o2ib")
		check := func(what string, a, b int) {
			t.Helper()
			if x, y := p.registered(p.ida.NID), p.registered(late); x != a || y != b {
				t.Errorf("%s: %d and %d registrations, want %d and %d", what, x, y, a, b)
			}
		}
		check("first", 2, 0)
		p.addNI(p.a, late)
		check("with an NI that came later", 2, 2)
		if err := second.Release(); err != nil {
			t.Error(err)
		}
		check("after a release", 1, 1)
		if err := p.a.RemoveNI(ctx, p.ida.NID); err != nil {
			t.Fatal(err)
		}
		check("without the first NI", 0, 1)
		p.addNI(p.a, p.ida.NID)
		check("with the first NI again", 1, 1)

		attach(t, p.b, portals.Entry{Portal: 5}, portals.MD{Bytes: make([]byte, 9000), Threshold: portals.Unlimited, Options: portals.OpPut})
		for _, nid := range []lnet.NID{p.ida.NID, late} {
			put(t, p.a, bind(t, p.a, portals.MD{Memory: first.Slice(0, 9000), Threshold: 1, Unlink: true}),
				p.idb, node.PutOptions{Portal: 5, Source: nid})
			synctest.Wait()
			if d := p.counter(p.a, nid, "direct_total"); d != 1 {
				t.Errorf("%s has taken registered memory as it is %d times, want once", nid, d)
			}
		}
		if err := p.a.Close(ctx); err != nil {
			t.Fatal(err)
		}
		check("after Close", 0, 0)
		if err := first.Release(); !errors.Is(err, memory.ErrReleased) {
			t.Errorf("release after Close: %v, want ErrReleased", err)
		}
		if _, err := p.a.Register(ctx, make([]byte, 1)); !errors.Is(err, node.ErrClosed) {
			t.Errorf("register after Close: %v, want ErrClosed", err)
		}
		if _, err := p.b.Register(ctx, nil); !errors.Is(err, node.ErrInvalid) {
			t.Errorf("register nothing: %v, want ErrInvalid", err)
		}
	})
}

// If a device cannot register memory, messages are copied; there is no other effect.
func TestRegionThatADeviceRefuses(t *testing.T) {
	onRDMA(t, func(t *testing.T, p *rdmaPair) {
		p.hosts[p.a].devices[p.ida.NID].FailRegister(errors.New("full"))
		r := p.register(p.a, randomBytes(9000))
		sink := make([]byte, 9000)
		attach(t, p.b, portals.Entry{Portal: 5}, portals.MD{Bytes: sink, Threshold: 1, Options: portals.OpPut})
		put(t, p.a, bind(t, p.a, portals.MD{Memory: r.Slice(0, 9000), Threshold: 1, Unlink: true}), p.idb, node.PutOptions{Portal: 5})
		synctest.Wait()
		if !bytes.Equal(sink, randomBytes(9000)) || p.counter(p.a, p.ida.NID, "bounced_total") != 1 {
			t.Error("it did not go through the pool")
		}
		if err := r.Release(); err != nil {
			t.Error(err)
		}
	})
}

// Memory in use by messages is not released before their last event, however they end.
// Here their connection is lost, with PUTs that wait for their placement at the peer and
// a GET that waits for its answer.
func TestRegionOfMessagesThatAreCut(t *testing.T) {
	onRDMA(t, func(t *testing.T, p *rdmaPair) {
		if err := p.b.SetLazy(5); err != nil {
			t.Fatal(err)
		}
		r := p.register(p.a, make([]byte, 100_000))
		var events recorder
		md := func(n int) lnet.Handle {
			return bind(t, p.a, portals.MD{Memory: r.Slice(50, n), Threshold: 1, Unlink: true, Handler: &events})
		}
		for range 20 {
			put(t, p.a, md(50_000), p.idb, node.PutOptions{Portal: 5})
		}
		synctest.Wait()
		if err := r.Release(); !errors.Is(err, memory.ErrInUse) {
			t.Errorf("release during messages: %v, want ErrInUse", err)
		}
		if n := p.fabric.Break(p.hosts[p.a].Host, p.hosts[p.b].Host); n != 1 {
			t.Errorf("%d connections broken, want 1", n)
		}
		time.Sleep(10 * time.Second) // less than the timeout of a message
		var failed, whole int
		for _, e := range events.take() {
			if e.Err == nil || !e.Unlinked {
				t.Errorf("%v: %v, unlinked %v", e.Type, e.Err, e.Unlinked)
			}
			failed++
		}
		time.Sleep(time.Hour) // messages of which nothing was sent are resent
		attach(t, p.b, portals.Entry{Portal: 5}, portals.MD{
			Bytes: make([]byte, 50_000), Threshold: portals.Unlimited, Options: portals.OpPut | portals.ManageRemote,
		})
		synctest.Wait()
		for _, e := range events.take() {
			if !e.Unlinked {
				t.Errorf("%v without Unlinked", e.Type)
			}
			if e.Err != nil {
				failed++
			} else {
				whole++
			}
		}
		if failed == 0 || failed+whole != 20 {
			t.Errorf("%d messages have failed and %d have left, want 20 in all", failed, whole)
		}
		if err := r.Release(); err != nil {
			t.Errorf("release after the last event: %v", err)
		}
		if _, err := p.a.Bind(portals.MD{Memory: r.Slice(0, 10)}); !errors.Is(err, memory.ErrReleased) || !errors.Is(err, node.ErrInvalid) {
			t.Errorf("MD of what was released: %v", err)
		}
	})
}

// A GET that no entry matches ends at once, without a REPLY event.
func TestRDMAGetOfNothing(t *testing.T) {
	onRDMA(t, func(t *testing.T, p *rdmaPair) {
		var events recorder
		h := bind(t, p.a, portals.MD{Bytes: make([]byte, 9000), Threshold: portals.Unlimited, Handler: &events})
		if err := p.a.Get(h, p.idb, node.GetOptions{Portal: 5}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if e := events.take(); len(e) != 1 || e[0].Type != portals.EventSend || e[0].Err == nil {
			t.Errorf("events %+v, want a SEND that has failed", e)
		}
	})
}
