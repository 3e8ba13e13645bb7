package hostnet_test

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnd/hostnet"
	"github.com/lnetd/lnetd/lnd/hostnet/hostnettest"
	"github.com/lnetd/lnetd/lnet"
)

var (
	own, other = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	nid        = lnet.NIDFromIP(lnet.MakeNet(lnet.TypeTCP, 0), own)
)

// device returns a device that is up, with addresses.
func device(index int, name string, addrs ...netip.Addr) hostnet.Device {
	d := hostnet.Device{Name: name, Index: index, Up: true}
	for _, a := range addrs {
		d.Addrs = append(d.Addrs, netip.PrefixFrom(a, a.BitLen()))
	}
	return d
}

// node records changes of the link.
type node struct {
	lnd.Upper
	states []lnd.LinkState
}

func (n *node) LinkChanged(s lnd.LinkState) { n.states = append(n.states, s) }

// Each cause of a link that is down has its text with a remedy. An NI follows its device to another name,
// and its name to another device if that has the address.
//
// decisions 98
func TestLinkCauses(t *testing.T) {
	off, noCarrier, down := device(7, "eth7", own), device(7, "eth7", own), device(7, "eth7", own)
	off.Up, noCarrier.Up, down.Up = false, false, false
	off.Off, noCarrier.NoCarrier = true, true
	uplinkOff := hostnet.Device{Name: "uplink1", Index: 9, Off: true, Addrs: off.Addrs}
	eth7 := device(7, "eth7", own)
	host := hostnettest.New(eth7)
	n := &node{}
	l := hostnet.NewLink(host, &eth7, nid, n, boundedlog.New(slog.New(slog.DiscardHandler)), nil)
	back := 0
	l.OnBack(func() { back++ })
	for _, test := range []struct {
		name    string
		devices []hostnet.Device
		device  string // the name of the NI's device then
		want    string // in the cause; empty: up
	}{
		{"as it was", []hostnet.Device{eth7}, "eth7", ""},
		{"switched off", []hostnet.Device{off}, "eth7", "eth7 is switched off: ip link set eth7 up"},
		{"no carrier", []hostnet.Device{noCarrier}, "eth7", "eth7 has no carrier: check its cable"},
		{"not operational", []hostnet.Device{down}, "eth7", "eth7 is not operational"},
		{"address lost", []hostnet.Device{device(7, "eth7", other)}, "eth7", "eth7 has lost the address 10.0.0.1"},
		{"removed", nil, "eth7", "eth7 was removed: restore it"},
		{"moved", []hostnet.Device{{Index: 7, Moved: true}}, "eth7", "eth7 was moved to another network namespace: move it back"},
		{"another device with the name", []hostnet.Device{device(9, "eth7", other)}, "eth7", "eth7 was removed"},
		{"back with another index", []hostnet.Device{device(9, "eth7", own)}, "eth7", ""},
		{"renamed", []hostnet.Device{device(9, "uplink0", own)}, "uplink0", ""},
		{"renamed and switched off", []hostnet.Device{uplinkOff}, "uplink0", "uplink1 is switched off"},
		{"switched on", []hostnet.Device{device(9, "uplink1", own)}, "uplink1", ""},
		{"the old name is another device's", []hostnet.Device{device(9, "uplink1", own), device(10, "uplink0", other)}, "uplink1", ""},
		{"names exchanged", []hostnet.Device{device(9, "uplink0", own), device(10, "uplink1", other)}, "uplink0", ""},
		{"the address is another device's", []hostnet.Device{device(9, "uplink0", other), device(10, "uplink1", own)}, "uplink0", "uplink0 has lost the address"},
	} {
		host.Set(test.devices...)
		before, reported := l.State(), len(n.states)
		l.Check()
		if got := l.Cause(); !strings.HasPrefix(got, test.want) || (got == "") != (test.want == "") || l.Device() != test.device {
			t.Errorf("%s: cause %q, device %s; want %q, %s", test.name, got, l.Device(), test.want, test.device)
		}
		want := lnd.LinkDown
		if test.want == "" {
			want = lnd.LinkUp
		}
		var changes []lnd.LinkState
		if want != before {
			changes = []lnd.LinkState{want}
		}
		if got := n.states[reported:]; l.State() != want || !slices.Equal(got, changes) {
			t.Errorf("%s: link %s, reported %v; want %s", test.name, l.State(), got, want)
		}
	}
	if back != 2 {
		t.Errorf("the link came back %d times, want 2", back)
	}
}

// TestDevicesCannotBeRead checks that the link keeps its state while the host's devices cannot be read, and
// that Watch has them read again, without an event of the host.
func TestDevicesCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines strings.Builder
		eth0 := device(2, "eth0", own)
		host, n := hostnettest.New(eth0), &node{}
		l := hostnet.NewLink(host, &eth0, nid, n, boundedlog.New(slog.New(slog.NewTextHandler(&lines, nil))), nil)
		var done sync.WaitGroup
		defer done.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var looks atomic.Int32
		done.Go(func() { l.Watch(ctx, func() { looks.Add(1); l.Check() }) })
		synctest.Wait()
		host.Fail(errors.New("no memory"))
		if l.State() != lnd.LinkUp || l.Cause() != "" || looks.Load() != 2 {
			t.Errorf("%s, cause %q, %d looks", l.State(), l.Cause(), looks.Load())
		}
		for want := 3; want < 6; want++ { // after 1, 2, 4 s
			time.Sleep(time.Second << (want - 3))
			synctest.Wait()
			if int(looks.Load()) != want {
				t.Errorf("%d looks, want %d", looks.Load(), want)
			}
		}
		host.Set() // eth0 was removed; nobody is watching for a change now
		if looks.Load() != 5 {
			t.Errorf("%d looks during the pause", looks.Load())
		}
		time.Sleep(8 * time.Second)
		synctest.Wait()
		if looks.Load() != 6 || l.State() != lnd.LinkDown || !slices.Equal(n.states, []lnd.LinkState{lnd.LinkDown}) {
			t.Errorf("%d looks, link %s, reported %v", looks.Load(), l.State(), n.states)
		}
		if !strings.Contains(lines.String(), `msg="network devices cannot be read; the last known link state is kept" device=eth0 cause="no memory"`) {
			t.Errorf("log %q", lines.String())
		}
	})
}

// An NI on an alias keeps that name, and follows the device of the alias.
func TestLinkOnAlias(t *testing.T) {
	eth0, alias := device(2, "eth0", other, own), device(2, "eth0:1", own)
	host := hostnettest.New(eth0, alias)
	l := hostnet.NewLink(host, &alias, nid, &node{}, boundedlog.New(nil), nil)
	l.Check()
	if l.Cause() != "" || l.Device() != "eth0:1" {
		t.Errorf("%q on %s", l.Cause(), l.Device())
	}
	host.Set(device(2, "eth0", other))
	l.Check()
	if got := l.Cause(); !strings.HasPrefix(got, "eth0 has lost the address") {
		t.Errorf("without the alias: %q", got)
	}
}

// A driver can add its own reason. It is asked while the device is fine.
func TestDriverCause(t *testing.T) {
	eth0 := device(2, "eth0", own)
	reason := "rxe0 is gone"
	host, n := hostnettest.New(eth0), &node{}
	l := hostnet.NewLink(host, &eth0, nid, n, boundedlog.New(nil), func(device string) string {
		if device != "eth0" {
			t.Errorf("asked for %s", device)
		}
		return reason
	})
	if l.State() != lnd.LinkDown || l.Cause() != reason {
		t.Errorf("%s, %q", l.State(), l.Cause())
	}
	reason = ""
	l.Check()
	host.Set()
	l.Check()
	if !slices.Equal(n.states, []lnd.LinkState{lnd.LinkUp, lnd.LinkDown}) || !strings.HasPrefix(l.Cause(), "eth0 was removed") {
		t.Errorf("%v, %q", n.states, l.Cause())
	}
}

// Watch calls check for each change, until its context ends. It logs that a host cannot be watched.
func TestLinkWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines strings.Builder
		log := boundedlog.New(slog.New(slog.NewTextHandler(&lines, nil)))
		eth0 := device(2, "eth0", own)
		var changes hostnet.Changes
		host := &watched{hostnettest.New(eth0), changes.Watch}
		l := hostnet.NewLink(host, &eth0, nid, &node{}, log, nil)
		ctx, cancel := context.WithCancel(t.Context())
		looks, done := 0, make(chan struct{})
		go func() {
			defer close(done)
			l.Watch(ctx, func() { looks++ })
		}()
		for want := range 4 {
			synctest.Wait()
			if looks != want+1 {
				t.Errorf("%d looks, want %d", looks, want+1)
			}
			changes.Notify()
		}
		cancel()
		<-done
		if lines.Len() > 0 {
			t.Errorf("log %q", lines.String())
		}
		// Watch begins again, with longer and longer pauses, up to a minute.
		var times []time.Duration
		begun := time.Now()
		ctx, cancel = context.WithTimeout(t.Context(), 4*time.Minute)
		defer cancel()
		host.watch = func(context.Context, func()) error {
			times = append(times, time.Since(begun).Round(time.Second)/time.Second)
			return errors.New("no sockets")
		}
		l.Watch(ctx, nil)
		if want := []time.Duration{0, 1, 3, 7, 15, 31, 63, 123, 183}; !slices.Equal(times, want) {
			t.Errorf("watched at %d, want %d", times, want)
		}
		if got := lines.String(); !strings.Contains(got, `msg="link state cannot be watched now; a dead link is only detected by timeouts" device=eth0 cause="no sockets"`) {
			t.Errorf("log %q", got)
		}
	})
}

// watched is a host with another Watch.
type watched struct {
	*hostnettest.Host
	watch func(context.Context, func()) error
}

func (w *watched) Watch(ctx context.Context, changed func()) error { return w.watch(ctx, changed) }
