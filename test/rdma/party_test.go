//go:build o2ib && cgo

package rdma

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/rdmacore"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/memory"
	"github.com/lnetd/lnetd/node"
)

// Portal and match bits of the memory of the passive node.
const (
	portal  = 20
	putBits = 1
	getBits = 2
	// credits are sufficient for all exchanges in progress.
	credits = 128
)

// party is a node with an NI over RDMA in this process.
type party struct {
	verbs  verbs.Provider
	driver *o2iblnd.Driver
	node   *node.Node
	peer   lnet.ProcessID
	region *memory.Region
}

// open opens a node at the address at, whose driver polls for the time spin before it sleeps.
func open(at string, peer netip.Addr, spin time.Duration) (*party, error) {
	p := &party{peer: lnet.ProcessID{NID: o2ibNID(peer), PID: lnet.PIDLustre}}
	var err error
	if p.verbs, err = rdmacore.Open(); err != nil {
		return nil, err
	}
	c := o2iblnd.DefaultConfig()
	c.Provider, c.Service, c.Tunables.PeerCredits, c.Spin = p.verbs, service, credits, spin
	if p.driver, err = o2iblnd.New(c); err != nil {
		return nil, err
	}
	if p.node, err = node.New(node.Config{}); err != nil {
		return nil, err
	}
	nid := o2ibNID(netip.MustParseAddr(at))
	if _, err = p.node.AddNI(context.Background(), p.driver, lnd.Config{Net: nid.Net(), NID: nid}); err != nil {
		return nil, err
	}
	p.region, err = p.node.Register(context.Background(), make([]byte, 8*lnet.MTU))
	return p, err
}

func o2ibNID(a netip.Addr) lnet.NID { return lnet.NIDFromIP(lnet.MakeNet(lnet.TypeO2IB, 0), a) }

func (p *party) close(ctx context.Context) error {
	return errors.Join(p.node.Close(ctx), p.driver.Close(), p.verbs.Close())
}

// costs are what a process has used so far: crossings, times that one of its threads slept (voluntary context
// switches), and microseconds of processor time.
type costs [3]float64

func (p *party) costs() (c costs) {
	c[0] = float64(p.verbs.Crossings().Data())
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err == nil {
		c[1], c[2] = float64(u.Nvcsw), float64(u.Utime.Nano()+u.Stime.Nano())/1e3
	}
	return c
}

// offer attaches memory for PUTs and GETs.
func (p *party) offer() error {
	for bits, option := range map[uint64]portals.MDOptions{putBits: portals.OpPut, getBits: portals.OpGet} {
		_, err := p.node.Attach(portals.Entry{Portal: portal, MatchBits: bits}, portals.MD{
			Memory: p.region.Slice(0, lnet.MTU), Threshold: portals.Unlimited,
			Options: option | portals.ManageRemote | portals.Truncate,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// exchange is a PUT of n bytes with its ACK, or a GET.
type exchange struct {
	size, window int
	get          bool
}

// run makes n exchanges. The end of each of them starts the next one.
func (p *party) run(ctx context.Context, x exchange, n int) (time.Duration, error) {
	r := &run{p: p, x: x, done: make(chan error, 1)}
	r.begun.Store(int64(n))
	r.left.Store(int64(n))
	handles := make([]lnet.Handle, x.window)
	for k := range handles {
		m := portals.MD{Threshold: portals.Unlimited, Handler: r}
		if x.size > 0 {
			m.Memory = p.region.Slice(k%8*lnet.MTU, x.size)
		}
		var err error
		if handles[k], err = p.node.Bind(m); err != nil {
			return 0, err
		}
	}
	start := time.Now()
	for _, h := range handles {
		r.next(h)
	}
	var err error
	select {
	case err = <-r.done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	took := time.Since(start)
	for _, h := range handles {
		err = errors.Join(err, p.node.Unlink(h))
	}
	return took, err
}

// run is a series of exchanges.
type run struct {
	p           *party
	x           exchange
	begun, left atomic.Int64
	done        chan error
}

func (r *run) next(h lnet.Handle) {
	if r.begun.Add(-1) < 0 {
		return
	}
	var err error
	if r.x.get {
		err = r.p.node.Get(h, r.p.peer, node.GetOptions{Portal: portal, MatchBits: getBits})
	} else {
		err = r.p.node.Put(h, r.p.peer, node.PutOptions{Portal: portal, MatchBits: putBits, Ack: true})
	}
	if err != nil {
		r.end(err)
	}
}

func (r *run) end(err error) {
	select {
	case r.done <- err:
	default: // only the first error is reported
	}
}

// HandleEvent implements portals.Handler.
func (r *run) HandleEvent(e *portals.Event) {
	switch {
	case e.Err != nil:
		r.end(fmt.Errorf("%s: %w", e.Type, e.Err))
	case e.Type != portals.EventAck && e.Type != portals.EventReply:
	case r.left.Add(-1) == 0:
		r.end(nil)
	default:
		r.next(e.MD)
	}
}
