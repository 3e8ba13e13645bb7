package tmhost

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/rdmacore"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/inproc"
)

// privileged is the number of the first unprivileged port: lower ports are privileged.
const privileged = 1024

// openLNet creates a node and a domain over it. The node has an NI, unless c.NID is Loopback.
func (h *Host) openLNet(ctx context.Context, c Config) error {
	n, err := node.New(node.Config{Logger: c.Logger})
	if err != nil {
		return err
	}
	h.node = n
	if c.NID != Loopback {
		if err := h.addNI(ctx, c); err != nil {
			return err
		}
	}
	h.Domain, err = transport.NewDomain(ctx, inproc.New(n))
	return err
}

// addNI adds the configured NI to the node, with a new driver.
func (h *Host) addNI(ctx context.Context, c Config) error {
	ni := lnd.Config{Net: lnet.MakeNet(lnet.TypeTCP, 0)}
	if c.NID != "" {
		nid, err := lnet.ParseNID(c.NID)
		if err != nil {
			return err
		}
		ni.Net, ni.NID = nid.Net(), nid
	}
	if c.Port == 0 {
		c.Port = DefaultPort
	}
	var d lnd.Driver
	var err error
	switch ni.Net.Type() {
	case lnet.TypeTCP:
		d, err = h.openTCP(c)
	case lnet.TypeO2IB:
		var closer func() error
		if d, closer, err = OpenRDMA(c); err == nil {
			h.closers = append(h.closers, closer)
		}
	default:
		err = fmt.Errorf("NID %s: its net is neither tcp nor o2ib: %w", ni.NID, syscall.EINVAL)
	}
	if err != nil {
		return err
	}
	_, err = h.node.AddNI(ctx, d, ni)
	return err
}

func (h *Host) openTCP(c Config) (lnd.Driver, error) {
	config := socklnd.UnprivilegedConfig(c.Port)
	if c.Port < privileged {
		config = socklnd.DefaultConfig()
		config.AcceptPort, config.AcceptPortBulk = c.Port, c.Port
	}
	config.Logger = c.Logger
	if c.PeerCredits > 0 {
		config.Tunables.PeerCredits = c.PeerCredits
	}
	d, err := socklnd.New(config)
	if err != nil {
		return nil, err
	}
	h.closers = append(h.closers, d.Close)
	return d, nil
}

// OpenRDMA creates a driver for the RDMA devices of this host, with the port, the peer credits and the logger of c.
// The port may be the same as a TCP port in use, because RDMA ports are independent. The caller must call closer when
// the interfaces of the driver are closed.
func OpenRDMA(c Config) (d lnd.Driver, closer func() error, err error) {
	p, err := rdmacore.Open()
	if err != nil {
		return nil, nil, err
	}
	config := o2iblnd.DefaultConfig()
	config.Provider, config.Logger, config.Service = p, c.Logger, c.Port
	config.UsePrivilegedPort = c.Port < privileged
	if c.PeerCredits > 0 {
		config.Tunables.PeerCredits = c.PeerCredits
	}
	driver, err := o2iblnd.New(config)
	if err != nil {
		return nil, nil, errors.Join(err, p.Close())
	}
	return driver, func() error { return errors.Join(driver.Close(), p.Close()) }, nil
}
