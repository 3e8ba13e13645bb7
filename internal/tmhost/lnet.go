package tmhost

import (
	"context"
	"fmt"
	"syscall"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/inproc"
)

// privileged are ports below it.
const privileged = 1024

// openLNet makes a node with an NI on it, unless it is to have loopback alone.
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

func (h *Host) addNI(ctx context.Context, c Config) error {
	port := c.Port
	if port == 0 {
		port = DefaultPort
	}
	config := socklnd.UnprivilegedConfig(port)
	if port < privileged {
		config = socklnd.DefaultConfig()
		config.AcceptPort, config.AcceptPortBulk = port, port
	}
	config.Logger = c.Logger
	if c.PeerCredits > 0 {
		config.Tunables.PeerCredits = c.PeerCredits
	}
	ni := lnd.Config{Net: lnet.MakeNet(lnet.TypeTCP, 0)}
	if c.NID != "" {
		nid, err := lnet.ParseNID(c.NID)
		if err != nil {
			return err
		}
		if nid.Net().Type() != lnet.TypeTCP {
			return fmt.Errorf("NID %s: its net is not tcp: %w", nid, syscall.EINVAL)
		}
		ni.Net, ni.NID = nid.Net(), nid
	}
	d, err := socklnd.New(config)
	if err != nil {
		return err
	}
	h.driver = d
	_, err = h.node.AddNI(ctx, d, ni)
	return err
}
