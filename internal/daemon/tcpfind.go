package daemon

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/lnetd/lnetd/internal/config"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
)

// linkPatience bounds the wait for an interface that is configured but not usable yet, as at
// boot.
const linkPatience = 5 * time.Second

// remedyNoNet tells the operator how to configure a net.
const remedyNoNet = `to choose, write the nets into the configuration file: "net: [{net type: tcp, interfaces: {0: eth0}}]", or start lnetd with --net "tcp(eth0)"`

// find returns an NI of net tcp on the first usable interface, or else on the loopback interface.
func (t *tcp) find(ctx context.Context, log *slog.Logger) (config.NI, error) {
	network := orHost(t.network)
	ni := config.NI{Net: lnet.MakeNet(lnet.TypeTCP, 0), Tunables: lnd.Tunables{PeerTimeout: -1}}
	dev, err := t.firstUsable(ctx, network, log)
	if err == nil {
		ni.Device = dev.Name
		log.Info("no nets are configured: taking the first usable interface",
			"net", ni.Net.String(), "interface", dev.Name, "remedy", remedyNoNet)
		return ni, nil
	}
	if ctx.Err() != nil {
		return ni, ctx.Err()
	}
	ni.NID = lnet.NIDFromIP(ni.Net, netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	log.Warn("no nets are configured and no interface is usable: taking the loopback interface, "+
		"which no other host reaches", "nid", ni.NID.String(), "cause", err, "remedy", remedyNoNet)
	return ni, nil
}

// firstUsable returns the first usable interface. If no interface is usable but one waits for its
// link, firstUsable waits for at most linkPatience.
func (t *tcp) firstUsable(ctx context.Context, network socklnd.Network, log *slog.Logger) (socklnd.Device, error) {
	dev, err := network.Device("", lnet.NID{})
	if err == nil || !t.linkPending() {
		return dev, err
	}
	log.Info("waiting for an interface to become usable", "at_most", linkPatience.String())
	ctx, cancel := context.WithTimeout(ctx, linkPatience)
	defer cancel()
	watch := network.Watch(ctx, func() {
		if err == nil {
			return
		}
		if dev, err = network.Device("", lnet.NID{}); err == nil {
			cancel()
		}
	})
	if watch != nil && err != nil {
		log.Warn("interfaces cannot be watched", "err", watch)
	}
	return dev, err
}

// linkPending reports whether the host has an interface that waits for its link.
func linkPending() bool {
	all, err := net.Interfaces()
	return err == nil && slices.ContainsFunc(all, waitsForLink)
}

// waitsForLink reports whether an interface is switched on but does not run. The loopback
// interface has no link to wait for.
func waitsForLink(i net.Interface) bool {
	return i.Flags&(net.FlagUp|net.FlagLoopback|net.FlagRunning) == net.FlagUp
}
