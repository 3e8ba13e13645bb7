package o2iblnd

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
)

// Interface is o2iblnd's side of one NI. It implements lnd.Interface.
type Interface struct {
	peering.Engine[*peer]
	driver  *Driver
	stamp   uint64                 // this NI's incarnation (o2iblnd 2.2)
	options atomic.Pointer[Config] // the driver's configuration with the interface's own tunables

	counters counters
	numbers  atomic.Uint32 // number of the last connection
	keeper   keeper
	kept     chan struct{} // closed when the keeper has ended
	calls    peering.Calls[*peer]
	absent   bool      // the host has no RDMA device for the address; only the keeper uses it
	nextBind time.Time // when the keeper looks for a device again; only the keeper uses it
	ticked   time.Time // time of the keeper's last tick
	resumed  time.Time // time of the last tick that was late because this machine was busy; only the keeper uses it

	mu            sync.RWMutex               // guards the fields below
	bound         *listener                  // nil while the interface has no device
	memoryWaiters []memoryWaiter             // what waits for registered memory
	regs          map[*registration]struct{} // memory that the program has registered
}

var (
	_ lnd.Interface     = (*Interface)(nil)
	_ lnd.Caller        = (*Interface)(nil)
	_ lnd.Tuner         = (*Interface)(nil)
	_ lnd.LinkExplainer = (*Interface)(nil)
	_ memory.Registrar  = (*Interface)(nil)
)

// start starts the goroutines of an interface that is bound to a listener.
func (i *Interface) start() {
	i.OpenLink(i.rdmaCause)
	go i.keep()
	i.WatchLink(i.checkLink)
}

// LargeNIDs implements lnd.Interface. The protocol does not support them (o2iblnd 2.1).
func (i *Interface) LargeNIDs() bool { return false }

// Timeout implements lnd.Interface. It returns the LND timeout T (o2iblnd 13.2).
func (i *Interface) Timeout() time.Duration {
	return i.TimeoutOr(i.options.Load().Timeout, defaultTimeout)
}

// depth returns the queue depth that this node offers to peers and accepts from them at most.
func (i *Interface) depth() int { return i.Flow.PeerCredits }

// self returns the parameters that the interface announces to peers.
func (i *Interface) self() protocol.Self {
	return protocol.Self{NID: i.Self, Stamp: i.stamp, Depth: i.depth(), Fragments: protocol.MaxFragments}
}

// Send implements lnd.Interface. A message to a peer without a connection waits for one (o2iblnd 13.2).
func (i *Interface) Send(m *lnd.Tx) {
	m.Replied, m.ReplyLength = false, 0
	if err := checkHeader(&m.Header); err != nil {
		i.Out.Add(peering.Failed(m, i.Error("send", m.To.NID, lnd.StatusLocalError, err)))
		return
	}
	i.Submit(m, process(m.To.NID))
}

// process returns the ID of the peer with the given NID. The protocol has no other processes than nodes.
func process(nid lnet.NID) lnet.ProcessID { return lnet.ProcessID{NID: nid, PID: lnet.PIDLustre} }

// reachable reports whether this node can connect to a peer: it is on the interface's net and has an IPv4
// address.
func (i *Interface) reachable(id lnet.ProcessID) bool {
	return id.NID.Net() == i.Self.Net() && id.NID.IP().Is4()
}

// Receive implements lnd.Interface.
func (i *Interface) Receive(m *lnd.Rx, p lnd.Placement) { m.Driver.(*rx).place(p) }

// Close implements lnd.Interface.
func (i *Interface) Close(ctx context.Context) error {
	return i.Stop(ctx, func() {
		i.driver.unbind(i)
		i.keeper.do(task{kind: taskMemory})
	}, func() {
		i.keeper.do(task{kind: taskStop})
		<-i.kept
		i.serveMemoryWaiters(time.Now())
		i.Out.Wait()
		i.releaseAll()
		i.driver.leave(i)
	})
}

// countLost counts and logs the end of a connection. up reports whether it was established. final is the error
// of a failed series of attempts to connect, of which this was the last; otherwise it is nil.
func (i *Interface) countLost(c *conn, up bool, final error) {
	f := c.failure
	switch {
	case up && f.Errno == syscall.EPROTO:
		i.LogClosed(c.p, 1, fmt.Errorf("%w: %w", lnd.ErrProtocol, f))
	case up:
		i.LogClosed(c.p, 1, f)
	case !c.ours:
		i.Count.Refused.Refused(i.driver.log, c.source, refused(f))
	case final != nil:
		i.Count.CallFailures.Failed(i.Log, c.p.ID.NID, callError(f, final))
	}
}
