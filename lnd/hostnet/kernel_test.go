package hostnet

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/testing/namespace"
	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// This host has a loopback device, which is found by any of its addresses.
func TestKernelHasLoopback(t *testing.T) {
	var k Kernel
	dev, err := Find(&k, "", netip.MustParseAddr("127.3.2.1"))
	if err != nil || !dev.Loopback || dev.Index == 0 || k.Speed(dev.Name) != 0 {
		t.Errorf("%+v, %v", dev, err)
	}
}

// Given a namespace, when devices and addresses are added, changed, renamed, moved and removed, then each
// step is an event, and Devices returns the new state.
func TestKernelFollowsANamespace(t *testing.T) {
	testenv.NeedRoot(t)
	prefix := "lnetd-hostnet-"
	namespace.Sweep(prefix)
	name := fmt.Sprint(prefix, os.Getpid())
	away, room := name+"-away", name+"-room"
	for _, n := range []string{name, away, room} {
		namespace.New(t, n)
	}
	var k Kernel
	events := make(chan struct{}, 1000)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	watching := make(chan error, 1)
	// The sockets belong to the namespace in which they are created.
	if err := namespace.Do(name, func() error { return startWatch(ctx, &k, events, watching) }); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		if err := <-watching; err != nil {
			t.Error(err)
		}
	}()
	devices := func() (all []Device) {
		t.Helper()
		err := namespace.Do(name, func() (err error) { all, err = k.Devices(); return err })
		if err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(all, func(d Device) bool { return d.Loopback })
	}
	prefixes := func(texts ...string) (all []netip.Prefix) {
		for _, text := range texts {
			all = append(all, netip.MustParsePrefix(text))
		}
		return all
	}
	index := 0
	for _, step := range []struct {
		ip   []string
		want []Device
	}{
		{[]string{"link", "add", "eth7", "netns", name, "type", "veth", "peer", "name", "port", "netns", room}, []Device{{Name: "eth7", Off: true}}},
		{[]string{"-n", name, "addr", "add", "10.0.0.1/24", "dev", "eth7"}, []Device{{Name: "eth7", Off: true, Addrs: prefixes("10.0.0.1/24")}}},
		{[]string{"-n", name, "addr", "add", "10.0.0.2/24", "label", "eth7:1", "dev", "eth7"}, []Device{
			{Name: "eth7", Off: true, Addrs: prefixes("10.0.0.1/24", "10.0.0.2/24")},
			{Name: "eth7:1", Off: true, Addrs: prefixes("10.0.0.2/24")},
		}},
		{[]string{"-n", name, "addr", "del", "10.0.0.2/24", "dev", "eth7"}, []Device{{Name: "eth7", Off: true, Addrs: prefixes("10.0.0.1/24")}}},
		{[]string{"-n", name, "link", "set", "eth7", "up", "addrgenmode", "none"}, []Device{{Name: "eth7", NoCarrier: true, Addrs: prefixes("10.0.0.1/24")}}},
		{[]string{"-n", room, "link", "set", "port", "up"}, []Device{{Name: "eth7", Up: true, Addrs: prefixes("10.0.0.1/24")}}},
		{[]string{"-n", name, "link", "set", "eth7", "down"}, []Device{{Name: "eth7", Off: true, Addrs: prefixes("10.0.0.1/24")}}},
		{[]string{"-n", name, "link", "set", "eth7", "name", "uplink0"}, []Device{{Name: "uplink0", Off: true, Addrs: prefixes("10.0.0.1/24")}}},
		{[]string{"-n", name, "link", "set", "uplink0", "netns", away}, []Device{{Moved: true}}},
		{[]string{"-n", away, "link", "set", "uplink0", "netns", name}, []Device{{Name: "uplink0", Off: true}}},
		{[]string{"-n", name, "link", "del", "uplink0"}, nil},
	} {
		namespace.IP(t, step.ip...)
		want := func() bool {
			got := devices()
			for n := range got {
				if index == 0 {
					index = got[n].Index
				}
				if got[n].Index != index {
					t.Errorf("%q: index %d, want %d", step.ip, got[n].Index, index)
				}
				got[n].Index = 0
			}
			return cmp.Equal(step.want, got, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })) || len(step.want)+len(got) == 0
		}
		for !want() { // each look is after an event
			select {
			case <-events:
			case <-ctx.Done():
				t.Fatalf("%q: %+v, want %+v", step.ip, devices(), step.want)
			}
		}
	}
}

// startWatch starts watchDevices in the caller's namespace.
func startWatch(ctx context.Context, k *Kernel, events chan struct{}, watching chan error) error {
	c, err := subscribe()
	if err != nil {
		return err
	}
	go func() { watching <- k.receive(ctx, c, func() { events <- struct{}{} }) }()
	return nil
}

// A host moves a device away for each container that it starts. The list of these devices is bounded.
func TestMovedDevicesAreBounded(t *testing.T) {
	left, err := netlink.MarshalAttributes([]netlink.Attribute{{Type: unix.IFLA_NEW_NETNSID, Data: make([]byte, 4)}})
	if err != nil {
		t.Fatal(err)
	}
	var k Kernel
	for index := range 10 * movedMax {
		b := make([]byte, unix.SizeofIfInfomsg)
		binary.NativeEndian.PutUint32(b[4:], uint32(index))
		k.noteMoved([]netlink.Message{{Header: netlink.Header{Type: unix.RTM_DELLINK}, Data: append(b, left...)}})
	}
	if n := len(k.moved); n != movedMax || k.moved[n-1] != 10*movedMax-1 {
		t.Errorf("%d devices, the last one %d; want %d", n, k.moved[n-1], movedMax)
	}
}

// merge calls changed at first, for each event, and once more when no event has come for settling. It does
// not look again without an event.
func TestMerge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events, ended := make(chan struct{}, 1), make(chan error)
		begin := time.Now()
		var looks []time.Duration
		done := make(chan error)
		go func() {
			done <- merge(events, ended, func() { looks = append(looks, time.Since(begin)) }, func() bool { return true })
		}()
		events <- struct{}{}
		time.Sleep(settling / 2)
		events <- struct{}{}
		time.Sleep(time.Hour)
		events <- struct{}{}
		time.Sleep(time.Hour)
		failure := errors.New("no more")
		ended <- failure
		if err := <-done; !errors.Is(err, failure) {
			t.Error(err)
		}
		want := []time.Duration{0, 0, settling / 2, settling * 3 / 2, time.Hour + settling/2, time.Hour + settling*3/2}
		if diff := cmp.Diff(want, looks); diff != "" {
			t.Errorf("looks (-want +got):\n%s", diff)
		}
	})
}

// Watch looks first, and ends with its context.
func TestKernelWatch(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var k Kernel
	looks := 0
	if err := k.Watch(ctx, func() { looks++; cancel() }); err != nil || looks == 0 {
		t.Errorf("%d looks, %v", looks, err)
	}
}
