package hostnet

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jsimonetti/rtnetlink/v2"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Kernel is this host, in the network namespace of the process. The zero value is ready to use. It implements
// Host.
type Kernel struct {
	mu    sync.Mutex // guards moved
	moved []int      // indexes of devices that have left the network namespace while it was watched
}

// Devices implements Host. It skips temporary IPv6 addresses.
func (k *Kernel) Devices() ([]Device, error) {
	c, err := rtnetlink.Dial(nil)
	if err != nil {
		return nil, fmt.Errorf("rtnetlink: %w", err)
	}
	defer func() { _ = c.Close() }()
	links, err := c.Link.List()
	if err != nil {
		return nil, fmt.Errorf("rtnetlink: list links: %w", err)
	}
	addresses, err := c.Address.List()
	if err != nil {
		return nil, fmt.Errorf("rtnetlink: list addresses: %w", err)
	}
	var all []Device
	for n := range links {
		if l := &links[n]; l.Attributes != nil {
			all = appendDevice(all, describe(l), addresses)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, index := range k.moved {
		all = append(all, Device{Index: index, Moved: true})
	}
	return all, nil
}

// describe returns the device of a message, without its addresses.
func describe(l *rtnetlink.LinkMessage) Device {
	a := l.Attributes
	operational := a.OperationalState == rtnetlink.OperStateUp || a.OperationalState == rtnetlink.OperStateUnknown
	carrier := a.Carrier == nil || *a.Carrier != 0
	return Device{
		Name:      a.Name,
		Index:     int(l.Index),
		NoCarrier: l.Flags&unix.IFF_UP != 0 && !carrier,
		Up:        l.Flags&unix.IFF_UP != 0 && operational && carrier,
		Off:       l.Flags&unix.IFF_UP == 0,
		Loopback:  l.Flags&unix.IFF_LOOPBACK != 0,
	}
}

// appendDevice appends the device d with its addresses to all. It then appends the aliases of the device: an
// address whose label is the name of an alias belongs to this alias too.
func appendDevice(all []Device, d Device, addresses []rtnetlink.AddressMessage) []Device {
	aliases := []Device{}
	for n := range addresses {
		m := &addresses[n]
		if int(m.Index) != d.Index || m.Attributes == nil || m.Family == unix.AF_INET6 && m.Flags&unix.IFA_F_TEMPORARY != 0 {
			continue
		}
		ip := m.Attributes.Address
		if m.Attributes.Local != nil {
			ip = m.Attributes.Local
		}
		a, ok := netip.AddrFromSlice(ip)
		if !ok {
			continue
		}
		p := netip.PrefixFrom(a.Unmap(), int(m.PrefixLength))
		d.Addrs = append(d.Addrs, p)
		label := m.Attributes.Label
		if !isAlias(label) {
			continue
		}
		at := slices.IndexFunc(aliases, func(o Device) bool { return o.Name == label })
		if at < 0 {
			at = len(aliases)
			aliases = append(aliases, d)
			aliases[at].Name, aliases[at].Addrs = label, nil
		}
		aliases[at].Addrs = append(aliases[at].Addrs, p)
	}
	return append(append(all, d), aliases...)
}

// Speed returns the link speed of a device in Mbit/s, or 0 if it is unknown, as for virtual devices. For an
// alias it returns the speed of the device.
func (*Kernel) Speed(device string) int {
	device, _, _ = strings.Cut(device, ":")
	n, err := strconv.Atoi(readWord("/sys/class/net/" + device + "/speed"))
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// readWord returns the content of a file without the white space around it. It returns "" if the file cannot be
// read.
func readWord(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// movedMax is the number of devices that are remembered after they have left the network namespace. It is
// limited because every container that starts takes a device away.
const movedMax = 64

// settling is the time after the last event at which Watch calls changed once more. The kernel reports some
// changes before they are complete. For example, the address table of an RDMA device follows the addresses of
// its network device later, without an event.
const settling = time.Second

// Watch implements Host. The events are those of rtnetlink and, if the kernel sends them, those about RDMA
// devices. On a host with RDMA devices, Watch also calls changed a second after the first call and after the
// last event (settling).
//
// A container without privileges gets no events about RDMA devices. A change of these is then noticed with the
// next event of rtnetlink. If the events about RDMA devices cannot be received at all, Watch returns an error
// only on a host with RDMA devices.
func (k *Kernel) Watch(ctx context.Context, changed func()) error {
	c, err := subscribe()
	if err != nil {
		return err
	}
	rdma, err := subscribeRDMA()
	if err != nil && hasRDMA() {
		_ = c.Close()
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	events, ended := make(chan struct{}, 1), make(chan error, 2)
	event := func() {
		select {
		case events <- struct{}{}:
		default: // one is enough
		}
	}
	group.Go(func() { ended <- k.receive(ctx, c, event) })
	if err == nil {
		group.Go(func() {
			if err := receiveRDMA(ctx, rdma, event); err == nil || hasRDMA() {
				ended <- err
			}
		})
	}
	return merge(events, ended, changed, hasRDMA)
}

// merge calls changed immediately, for changes before the subscription, and after each event, until ended has a
// value. If settles returns true, merge calls changed once more when no event has arrived for the time
// settling.
func merge(events <-chan struct{}, ended <-chan error, changed func(), settles func() bool) error {
	settled := time.NewTimer(settling)
	settled.Stop()
	defer settled.Stop()
	look := func() {
		changed()
		if settles() {
			settled.Reset(settling)
		}
	}
	look()
	for {
		select {
		case <-events:
			look()
		case <-settled.C:
			changed()
		case err := <-ended:
			return err
		}
	}
}

// subscribe returns a connection that receives events about links and addresses.
func subscribe() (*rtnetlink.Conn, error) {
	c, err := rtnetlink.Dial(&netlink.Config{
		Groups: unix.RTMGRP_LINK | unix.RTMGRP_IPV4_IFADDR | unix.RTMGRP_IPV6_IFADDR,
	})
	if err != nil {
		return nil, fmt.Errorf("rtnetlink: %w", err)
	}
	return c, nil
}

// receive calls event after each event of rtnetlink. It closes c and returns when ctx is done or an error
// occurs.
func (k *Kernel) receive(ctx context.Context, c *rtnetlink.Conn, event func()) error {
	defer func() { _ = c.Close() }()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	for {
		_, messages, err := c.Receive()
		k.noteMoved(messages)
		// ENOBUFS means that events were lost. This needs no special care, because all devices are examined after any event.
		if err != nil && !errors.Is(err, unix.ENOBUFS) {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("rtnetlink: receive: %w", err)
		}
		event()
	}
}

// noteMoved records the devices that have left the network namespace, and removes from the record those that
// have come back.
func (k *Kernel) noteMoved(messages []netlink.Message) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for n := range messages {
		m := &messages[n]
		if len(m.Data) < unix.SizeofIfInfomsg {
			continue
		}
		index := int(int32(binary.NativeEndian.Uint32(m.Data[4:])))
		left := m.Header.Type == unix.RTM_DELLINK && hasAttribute(m.Data[unix.SizeofIfInfomsg:], unix.IFLA_NEW_NETNSID)
		if left || m.Header.Type == unix.RTM_NEWLINK {
			k.moved = slices.DeleteFunc(k.moved, func(o int) bool { return o == index })
		}
		if left {
			k.moved = append(k.moved, index)
			k.moved = k.moved[max(0, len(k.moved)-movedMax):]
		}
	}
}

// hasAttribute reports whether a message with the attributes b has one of the given type.
func hasAttribute(b []byte, typ uint16) bool {
	d, err := netlink.NewAttributeDecoder(b)
	if err != nil {
		return false
	}
	for d.Next() {
		if d.Type() == typ {
			return true
		}
	}
	return false
}
