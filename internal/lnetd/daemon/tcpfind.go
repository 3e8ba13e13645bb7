package daemon

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/hostnet"
	"github.com/lnetd/lnetd/lnet"
)

// linkTimeout is the maximum time that lnetd waits at its start for an interface that has no link yet,
// as happens while the host boots.
const linkTimeout = 5 * time.Second

// remedyNoNet tells the operator how to configure a net instead of letting lnetd choose an interface.
const remedyNoNet = `to choose, write the nets into the configuration file: "net: [{net type: tcp, interfaces: {0: eth0}}]", or start lnetd with --net "tcp(eth0)"`

// find returns an NI on the net tcp that uses the first usable interface. If no interface is usable, the
// NI uses the loopback interface, which other hosts cannot reach.
func (t *tcp) find(ctx context.Context, log *slog.Logger) (config.NI, error) {
	ni := config.NI{Net: lnet.MakeNet(lnet.TypeTCP, 0), Tunables: lnd.Tunables{PeerTimeout: -1}}
	dev, err := t.firstUsable(ctx, log)
	if err == nil {
		ni.Device = dev.Name
		log.Info("no nets are configured; using the first usable interface",
			"net", ni.Net.String(), "interface", dev.Name, "remedy", remedyNoNet)
		return ni, nil
	}
	if ctx.Err() != nil {
		return ni, ctx.Err()
	}
	ni.NID = lnet.NIDFromIP(ni.Net, netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	log.Warn("no nets are configured and no interface is usable; using the loopback interface, "+
		"which other hosts cannot reach", "nid", ni.NID.String(), "cause", err, "remedy", remedyNoNet)
	return ni, nil
}

// firstUsable returns the first usable interface. If no interface is usable but one still waits for its
// link, firstUsable waits for a usable one, at most linkTimeout.
func (t *tcp) firstUsable(ctx context.Context, log *slog.Logger) (hostnet.Device, error) {
	dev, err := hostnet.Find(t.network, "", netip.Addr{})
	if err == nil || !t.linkPending() {
		return dev, err
	}
	log.Info("waiting for an interface to become usable", "at_most", linkTimeout.String())
	ctx, cancel := context.WithTimeout(ctx, linkTimeout)
	defer cancel()
	watch := t.network.Watch(ctx, func() {
		if err == nil {
			return
		}
		if dev, err = hostnet.Find(t.network, "", netip.Addr{}); err == nil {
			cancel()
		}
	})
	if watch != nil && err != nil {
		log.Warn("cannot wait for an interface, because the kernel does not report changes of interfaces", "cause", watch)
	}
	return dev, err
}

// linkPending reports whether the host has an interface that waits for its link.
func (t *tcp) linkPending() bool {
	all, err := t.network.Devices()
	return err == nil && slices.ContainsFunc(all, func(d hostnet.Device) bool { return d.WaitsForLink() })
}
