//go:build o2ib && cgo

package rdmacore

import (
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

func (i *id) Connect(p verbs.ConnParam) error {
	return i.connect("connect", p, verbs.MaxConnectPrivate, 0)
}

func (i *id) Accept(p verbs.ConnParam) error {
	return i.connect("accept", p, verbs.MaxAcceptPrivate, 1)
}
