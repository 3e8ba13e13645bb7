//go:build o2ib && cgo

package rdmacore

import (
	"net/netip"
	"syscall"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
)

func (p *provider) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n, k := len(p.devices), p.channels.Load(); n > 0 || k > 0 {
		return verbs.Wrap(syscall.EBUSY, "close: %d devices and %d channels left", n, k)
	}
	return nil
}

func (c *channel) Close() error {
	c.known.Lock()
	n := len(c.ids)
	if n == 0 {
		c.ids = nil
	}
	c.known.Unlock()
	if n > 0 {
		return verbs.Wrap(syscall.EBUSY, "close the event channel: %d IDs left", n)
	}
	err := c.destroy()
	if err == nil {
		c.p.channels.Add(-1)
		c.w.end()
	}
	return verbs.Wrap(err, "close the event channel")
}

func (i *id) QPN() uint32 { return i.qpn.Load() }

func (i *id) Local() netip.AddrPort  { return i.addrs()[0] }
func (i *id) Remote() netip.AddrPort { return i.addrs()[1] }

func (i *id) Connect(p verbs.ConnParam) error {
	return i.connect("connect", p, verbs.MaxConnectPrivate, 0)
}

func (i *id) Accept(p verbs.ConnParam) error {
	return i.connect("accept", p, verbs.MaxAcceptPrivate, 1)
}
