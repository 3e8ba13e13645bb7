package peering

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnd/hostnet"
	"github.com/lnetd/lnetd/lnet"
)

// Place is the device and the address on which an interface is opened, with what the interface needs from its
// configuration.
type Place struct {
	Self    lnet.NID
	Address netip.Addr
	Host    hostnet.Host
	Device  hostnet.Device // the device's state when the interface was opened
	Upper   lnd.Upper
	Log     *boundedlog.Log
}

// FindPlace resolves an interface's configuration c, and finds the device and the address on the host h. It
// returns an error if c is invalid, if its net is not of type t, or if the host has no such device. The
// interface logs to log if c has no logger.
func FindPlace(ctx context.Context, c *lnd.Config, t lnet.NetType, h hostnet.Host, log *boundedlog.Log) (*Place, error) {
	if c.Upper == nil {
		return nil, errors.New("Config.Upper is not set")
	}
	if err := c.Resolve(); err != nil {
		return nil, err
	}
	if c.Net.Type() != t {
		return nil, fmt.Errorf("net type is %s instead of %s", c.Net.Type(), t)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p := &Place{Host: h, Upper: c.Upper}
	var err error
	if p.Device, p.Address, err = hostnet.Choose(h, c.Device, c.NID); err != nil {
		return nil, err
	}
	if c.Logger != nil {
		log = boundedlog.New(c.Logger)
	}
	p.Self = lnet.NIDFromIP(c.Net, p.Address)
	p.Log = log.With("nid", p.Self.String())
	return p, nil
}

// OpenLink determines the state of the NI's link. The driver must call it before it uses Device, Link,
// LinkCause, WatchLink or CheckLink. more may be nil; it is passed to hostnet.NewLink. When the link has been
// down and comes back, the timeouts of all peers restart.
func (e *Engine[P]) OpenLink(more func(device string) (cause string)) {
	e.link = hostnet.NewLink(e.Host, &e.Place.Device, e.Self, e.Upper, e.Log, more)
	e.link.OnBack(func() { e.LinkBack(lnet.NID{}) })
}

// WatchLink starts a goroutine that watches the link until the interface closes. It calls check when the
// host's network configuration has changed. check calls CheckLink, or makes another goroutine call it. The
// engine closes no connection because the link is down.
func (e *Engine[P]) WatchLink(check func()) {
	e.Group.Go(func() { e.link.Watch(e.Context, check) })
}

// CheckLink examines the link and reports a change of its state to the node. Only one call may run at a time.
func (e *Engine[P]) CheckLink() { e.link.Check() }

// NID implements lnd.Interface.
func (e *Engine[P]) NID() lnet.NID { return e.Self }

// Device implements lnd.Interface.
func (e *Engine[P]) Device() string { return e.link.Device() }

// Link implements lnd.Interface.
func (e *Engine[P]) Link() lnd.LinkState { return e.link.State() }

// LinkCause implements lnd.LinkExplainer.
func (e *Engine[P]) LinkCause() string { return e.link.Cause() }

// Tunables implements lnd.Interface.
func (e *Engine[P]) Tunables() lnd.Tunables { return e.Flow }

// TimeoutOr returns the LND timeout in force. This is own, the interface's configured value, if it is
// positive; otherwise the node's value if that is positive (Upper.LNDTimeout); otherwise byDefault.
func (e *Engine[P]) TimeoutOr(own, byDefault time.Duration) time.Duration {
	if own > 0 {
		return own
	}
	if t := e.Upper.LNDTimeout(); t > 0 {
		return t
	}
	return byDefault
}
