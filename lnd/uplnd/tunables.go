package uplnd

import (
	"fmt"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// options are the tunables of an NI.
type options struct{ timeout time.Duration }

var fields = lnd.Fields[options]{
	lnd.NumberIn(func(o *options) *time.Duration { return &o.timeout }, lnd.Tunable{
		Name: "timeout", Max: 24 * 3600, Unit: lnd.Seconds, Live: true, PerNet: true,
		Help: "time without progress until a proxy gives a message up; 0: lnd_timeout",
	}),
}

// Table describes the tunables of the driver for nets of the type t.
func Table(t lnet.NetType) lnd.Table { return lnd.Table{Type: t, Tunables: fields.Tunables()} }

// Defaults returns the tunables that an NI has if none are set.
func Defaults() (lnd.Tunables, lnd.Values) {
	return lnd.Tunables{PeerTimeout: 180 * time.Second, PeerCredits: 8, Credits: 256}, fields.Values(new(options))
}

// Tune implements lnd.Tuner. Proxies learn of another timeout with the next order TIMEOUT.
func (i *ni) Tune(values lnd.Values) error {
	o := new(options)
	if err := fields.SetAll(o, values); err != nil {
		return fmt.Errorf("uplnd: tune %s: %w", i.config.NID, err)
	}
	i.options.Store(o)
	return nil
}

// Options implements lnd.Interface.
func (i *ni) Options() lnd.Values { return fields.Values(i.options.Load()) }

// Timeout implements lnd.Interface.
func (i *ni) Timeout() time.Duration {
	if t := i.options.Load().timeout; t > 0 {
		return t
	}
	if t := i.config.Upper.LNDTimeout(); t > 0 {
		return t
	}
	return defaultTimeout
}
