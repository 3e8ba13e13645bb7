package o2iblnd

import (
	"fmt"
	"time"

	"github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// options are an interface's Options in force.
type options struct {
	perPeer int // conns_per_peer, 1 to 127
	hiw     int // peer_credits_hiw
	sends   int // concurrent_sends
	tos     int
	timeout time.Duration // 0: LNet's timeout
	kernel  KernelOnly
}

// resolveOptions fills in the driver's values.
func (d *Driver) resolveOptions(given any) (options, error) {
	o := DefaultOptions()
	switch v := given.(type) {
	case nil:
	case Options:
		o = v
	default:
		return options{}, fmt.Errorf("options of type %T: not o2iblnd.Options", given)
	}
	c := &d.config
	r := options{
		perPeer: given0(o.ConnsPerPeer, c.ConnsPerPeer), hiw: given0(o.PeerCreditsHiw, c.PeerCreditsHiw),
		sends: given0(o.ConcurrentSends, c.ConcurrentSends), tos: c.TOS, timeout: c.Timeout,
		kernel: o.KernelOnly.over(&c.KernelOnly),
	}
	r.perPeer = max(r.perPeer, 1)
	if o.TOS != nil {
		r.tos = max(*o.TOS, -1)
	}
	r.tos = max(r.tos, -1)
	if o.Timeout != nil {
		r.timeout = *o.Timeout
	}
	switch {
	case r.perPeer > maxPerPeer:
		return r, fmt.Errorf("conns_per_peer %d: must be 0 to 127", r.perPeer)
	case r.tos > 255:
		return r, fmt.Errorf("tos %d: must be -1 to 255", r.tos)
	case r.timeout < 0:
		return r, fmt.Errorf("timeout %s: must not be negative", r.timeout)
	}
	return r, nil
}

// over returns k with negative values replaced by those of c.
func (k KernelOnly) over(c *KernelOnly) KernelOnly {
	return KernelOnly{
		MapOnDemand: given0(k.MapOnDemand, c.MapOnDemand), FMRPoolSize: given0(k.FMRPoolSize, c.FMRPoolSize),
		FMRFlushTrigger: given0(k.FMRFlushTrigger, c.FMRFlushTrigger), FMRCache: given0(k.FMRCache, c.FMRCache),
		NTX: given0(k.NTX, c.NTX),
	}
}

// given0 returns v, or def if v is negative.
func given0(v, def int) int {
	if v < 0 {
		return def
	}
	return v
}

// flow returns the credit tunables (o2iblnd 15).
func (i *Interface) flow(o *options) protocol.Flow {
	return protocol.Flow{PeerCredits: i.depth(), HighWater: o.hiw, ConcurrentSends: o.sends}
}

// Options implements lnd.Interface. It returns an Options value with the values in force, after limits
// have been applied.
func (i *Interface) Options() any {
	o := *i.options.Load()
	f := i.flow(&o).Resolved()
	return Options{
		ConnsPerPeer: o.perPeer, PeerCreditsHiw: f.HighWater, ConcurrentSends: f.ConcurrentSends,
		TOS: &o.tos, Timeout: &o.timeout, KernelOnly: o.kernel,
	}
}

// Tune implements lnd.Tuner. It takes an Options value. A peer with connections keeps its current
// number until all of them are lost (o2iblnd 12.5).
func (i *Interface) Tune(given any) error {
	o, err := i.driver.resolveOptions(given)
	if err != nil {
		return fmt.Errorf("o2iblnd: tune %s: %w", i.nid, err)
	}
	i.options.Store(&o)
	for _, p := range i.peersOf(lnet.NID{}) {
		p.mu.Lock()
		p.publish()
		p.mu.Unlock()
	}
	return nil
}
