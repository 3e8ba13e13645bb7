package peering

import (
	"bytes"
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnd/hostnet"
	"github.com/lnetd/lnetd/lnd/hostnet/hostnettest"
	"github.com/lnetd/lnetd/lnet"
)

var home = netip.MustParseAddr("10.0.0.9")

func eth0(up bool) hostnet.Device {
	return hostnet.Device{Name: "eth0", Index: 2, Up: up, NoCarrier: !up, Addrs: []netip.Prefix{netip.PrefixFrom(home, 24)}}
}

// TestFindPlace checks the configuration of an interface, and finds its device, its NID and its logger.
func TestFindPlace(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tt := range map[string]struct {
		ctx  context.Context
		c    lnd.Config
		want string // part of the error; empty: none
	}{
		"by device":    {t.Context(), lnd.Config{Net: tcp, Device: "eth0", Upper: upper{}}, ""},
		"by nid":       {t.Context(), lnd.Config{NID: lnet.NIDFromIP(tcp, home), Upper: upper{}}, ""},
		"no upper":     {t.Context(), lnd.Config{Net: tcp}, "Config.Upper is not set"},
		"two nets":     {t.Context(), lnd.Config{Net: tcp + 1, NID: nid(1), Upper: upper{}}, "not on"},
		"another type": {t.Context(), lnd.Config{Net: lnet.MakeNet(lnet.TypeO2IB, 0), Upper: upper{}}, "instead of tcp"},
		"canceled":     {canceled, lnd.Config{Net: tcp, Upper: upper{}}, context.Canceled.Error()},
		"no device":    {t.Context(), lnd.Config{Net: tcp, Device: "eth7", Upper: upper{}}, "eth7"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			log := boundedlog.New(slog.New(slog.NewTextHandler(&out, nil)))
			p, err := FindPlace(tt.ctx, &tt.c, lnet.TypeTCP, hostnettest.New(eth0(true)), log)
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("error %v, want %q in it", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if p.Device.Name != "eth0" || p.Address != home || p.Self != lnet.NIDFromIP(tcp, p.Address) || p.Upper != tt.c.Upper {
				t.Errorf("%+v", p)
			}
			p.Log.Warn("a line")
			if want := "nid=" + p.Self.String(); !strings.Contains(out.String(), want) {
				t.Errorf("no %s in %s", want, out.String())
			}
		})
	}
}

// TestFindPlaceUsesTheLoggerOfTheInterface: an interface with a logger does not use the driver's.
func TestFindPlaceUsesTheLoggerOfTheInterface(t *testing.T) {
	var own, drivers bytes.Buffer
	c := lnd.Config{Net: tcp, Upper: upper{}, Logger: slog.New(slog.NewTextHandler(&own, nil))}
	p, err := FindPlace(t.Context(), &c, lnet.TypeTCP, hostnettest.New(eth0(true)), boundedlog.New(slog.New(slog.NewTextHandler(&drivers, nil))))
	if err != nil {
		t.Fatal(err)
	}
	p.Log.Warn("a line")
	if own.Len() == 0 || drivers.Len() > 0 {
		t.Errorf("%q is in the interface's log, %q in the driver's", &own, &drivers)
	}
}

// TestEngineFollowsItsLink: the engine has the state of its device's link, and timeouts start over when it is back.
func TestEngineFollowsItsLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newScripted()
		d.Place.Device, d.Place.Self = eth0(true), lnet.NIDFromIP(tcp, home)
		host := hostnettest.New(eth0(true))
		d.Place.Host = host
		d.Flow = lnd.Tunables{Credits: 7}
		d.OpenLink(nil)
		d.WatchLink(d.CheckLink)
		synctest.Wait()
		if d.Link() != lnd.LinkUp || d.LinkCause() != "" || d.Device() != "eth0" || d.NID() != d.Self || d.Tunables().Credits != 7 {
			t.Errorf("link %v (%s) of %s", d.Link(), d.LinkCause(), d.Device())
		}
		p, _ := d.Peer(process(1))
		host.Set(eth0(false))
		if d.Link() != lnd.LinkDown || d.LinkCause() == "" || p.renewed != 0 {
			t.Errorf("link %v (%s), renewed %d times", d.Link(), d.LinkCause(), p.renewed)
		}
		host.Set(eth0(true))
		if d.Link() != lnd.LinkUp || p.renewed != 1 {
			t.Errorf("link %v, renewed %d times", d.Link(), p.renewed)
		}
		d.reported(t, "link", "link down", "link up")
		if err := d.Stop(t.Context(), func() {}, func() {}); err != nil { // ends the watch
			t.Error(err)
		}
	})
}

// TestTimeoutOr takes the interface's own timeout before the node's, and that before the driver's default.
func TestTimeoutOr(t *testing.T) {
	d := newScripted()
	for _, tt := range []struct{ own, nodes, want time.Duration }{{3, 2, 3}, {0, 2, 2}, {0, 0, 1}} {
		d.lndTimeout = tt.nodes
		if got := d.TimeoutOr(tt.own, 1); got != tt.want {
			t.Errorf("own %d, the node's %d: %d, want %d", tt.own, tt.nodes, got, tt.want)
		}
	}
}
