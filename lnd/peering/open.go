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

// Place is where an interface is opened.
type Place struct {
	Self    lnet.NID
	Address netip.Addr
	Host    hostnet.Host
	Device  hostnet.Device // as it was when the interface was opened
	Upper   lnd.Upper
	Log     *boundedlog.Log
}

// FindPlace resolves an interface's configuration, and finds the device and the address on a host. It returns an
// error if the configuration is invalid, is for nets of another type than t, or if the host has no such device.
// log is for an interface whose configuration has no logger.
func FindPlace(ctx context.Context, c *lnd.Config, t lnet.NetType, h hostnet.Host, log *boundedlog.Log) (*Place, error) {
	if c.Upper == nil {
		return nil, errors.New("no upper")
	}
	if err := c.Resolve(); err != nil {
		return nil, err
	}
	if c.Net.Type() != t {
		return nil, fmt.Errorf("net type %s: not %s", c.Net.Type(), t)
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

// OpenLink finds the state of the NI's link, before the driver uses Device, Link and the like. more may be nil; it is
// called as by hostnet.NewLink. When the link comes back, timeouts that began while it was down start over.
func (e *Engine[P]) OpenLink(more func(device string) (cause string)) {
	e.link = hostnet.NewLink(e.Host, &e.Place.Device, e.Self, e.Upper, e.Log, more)
	e.link.OnBack(func() { e.LinkBack(lnet.NID{}) })
}

// WatchLink starts to watch the link until the interface closes. Connections stay open while it is down. check is
// called when the host has changed. It calls CheckLink, or has another goroutine do so.
func (e *Engine[P]) WatchLink(check func()) {
	e.Group.Go(func() { e.link.Watch(e.Context, check) })
}

// CheckLink examines the link, and reports a change to the node. Only one call may run at a time.
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

// TimeoutOr returns the LND timeout: own if that is positive, or the node's, or the driver's default.
func (e *Engine[P]) TimeoutOr(own, byDefault time.Duration) time.Duration {
	if own > 0 {
		return own
	}
	if t := e.Upper.LNDTimeout(); t > 0 {
		return t
	}
	return byDefault
}
