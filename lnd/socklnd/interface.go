package socklnd

import (
	"context"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// Interface is socklnd's side of one NI. It implements lnd.Interface.
type Interface struct {
	peering.Engine[*peer]
	driver *Driver
	// incarnation is the number that distinguishes this NI from the same NI before and after a restart. The
	// HELLOs of all its connections contain it (socklnd 6).
	incarnation uint64
	listening   []netip.AddrPort       // addresses of the acceptors that serve the interface; guarded by Driver.mu
	options     atomic.Pointer[Config] // the driver's configuration with the interface's own tunables
	injected    atomic.Bool            // a wrong checksum has been sent (Config.InjectChecksumError)

	counters counters
	ledger   ledger
	calls    calls
	doubts   chan struct{} // wakes the reaper to probe peers in doubt; has room for one token
}

var (
	_ lnd.Interface = (*Interface)(nil)
	_ lnd.Caller    = (*Interface)(nil)
	_ lnd.Tuner     = (*Interface)(nil)
)

func (i *Interface) start() {
	i.Group.Add(1)
	go i.reap()
	i.WatchLink(i.CheckLink)
}

// LargeNIDs implements lnd.Interface.
func (i *Interface) LargeNIDs() bool { return true }

// Timeout implements lnd.Interface. It returns the LND timeout T (socklnd 14).
func (i *Interface) Timeout() time.Duration {
	return i.TimeoutOr(i.options.Load().SockTimeout, defaultTimeout)
}

// Send implements lnd.Interface. A message to a peer without a connection waits for one, for at most
// the LND timeout.
func (i *Interface) Send(m *lnd.Tx) {
	m.Replied = false
	i.Submit(m, m.To)
}

// canCall reports whether this node can connect to a peer: the NID contains an address of the interface's
// address family, and the peer is a node, which listens. A process that connected from an unprivileged port
// does not listen; it is reached only over the connections that it opened (socklnd 12.4).
func (i *Interface) canCall(id lnet.ProcessID) bool {
	ip := id.NID.IP()
	return id.PID&lnet.PIDUserFlag == 0 && ip.IsValid() && ip.Is4() == i.Address.Is4()
}

// Receive implements lnd.Interface.
func (i *Interface) Receive(m *lnd.Rx, p lnd.Placement) {
	m.Driver.(*conn).receive(p)
}

// Counters implements lnd.Interface.
func (i *Interface) Counters() []lnd.Counter {
	conns, moved := i.ledger.sum()
	return append(i.List(conns, i.calls.Waiting()), i.counters.list(moved)...)
}

// Close implements lnd.Interface. Messages on connections end as they do when their connection fails.
func (i *Interface) Close(ctx context.Context) error {
	return i.Stop(ctx, func() { i.driver.leave(i) }, i.Out.Wait)
}

// hello returns this node's HELLO to the NID to, for a connection of type t with protocol version v.
func (i *Interface) hello(v protocol.Version, to lnet.NID, t protocol.ConnType) protocol.Hello {
	return protocol.Hello{
		Version:        v,
		Src:            i.Self,
		Dst:            to,
		SrcPID:         lnet.PIDLustre,
		SrcIncarnation: i.incarnation,
		Type:           t,
	}
}
