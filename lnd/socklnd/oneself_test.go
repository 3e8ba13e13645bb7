package socklnd

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"
)

// TestConnsPerPeerWithOneself: both ends of a connection of a node with itself belong to the same
// interface. The other end of a BULK_IN is a BULK_OUT, so conns_per_peer n makes n ends of each
// type.
//
// sanity-lnet 5 (230)
// socklnd 2.2 (4)
func TestConnsPerPeerWithOneself(t *testing.T) {
	for count := 4; count <= 15; count++ {
		n := start(t, func(c *Config) { c.ConnsPerPeer = count })
		if got := n.Options()["conns_per_peer"]; got != int64(count) {
			t.Errorf("conns_per_peer %d, shown as %d", count, got)
		}
		s := n.put(n.id(), 100)
		n.arrival()
		s.done()
		n.awaitSettled(n.id())
		if got := n.counter("connections"); got != uint64(2+2*count) {
			t.Errorf("conns_per_peer %d: %d ends of connections, want %d", count, got, 2+2*count)
		}
		n.stop()
	}
}

// TestListenerIsBoundToTheNID checks that an NI which was configured by its NID listens on that
// address and port only.
//
// sanity-lnet 5 (290)
// lnet-wire 5.4 (2)
func TestListenerIsBoundToTheNID(t *testing.T) {
	n := start(t, nil)
	address := n.NID().IP()
	dial := func(a netip.AddrPort) error {
		c, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", a.String())
		if err == nil {
			err = c.Close()
		}
		return err
	}
	if err := dial(netip.AddrPortFrom(address, testPort)); err != nil {
		t.Errorf("its address: %v", err)
	}
	for name, a := range map[string]netip.AddrPort{
		"another address": netip.AddrPortFrom(newAddress(), testPort),
		"another port":    netip.AddrPortFrom(address, testPort+1),
	} {
		if err := dial(a); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s: %v, want it refused", name, err)
		}
	}
}
