package peering

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// Given a driver's table of interfaces, then a NID is there once, and after the end none
// comes in.
func TestInterfaces(t *testing.T) {
	var all Interfaces[string]
	tcp := lnet.MakeNet(lnet.TypeTCP, 0)
	a, b := lnet.NIDFromIP(tcp, netip.AddrFrom4([4]byte{10, 0, 0, 1})), lnet.NIDFromIP(tcp, netip.AddrFrom4([4]byte{10, 0, 0, 2}))
	if err := errors.Join(all.Enter(a, "a"), all.Enter(b, "b")); err != nil {
		t.Fatal(err)
	}
	if err := all.Enter(a, "again"); !errors.Is(err, lnd.ErrExists) || all.Find(a) != "a" {
		t.Errorf("%v; %q is there", err, all.Find(a))
	}
	all.Leave(b)
	if n := all.Len(); n != 1 || all.Find(b) != "" {
		t.Errorf("%d are there, and %q", n, all.Find(b))
	}
	if err := all.Close(); err == nil || err.Error() != "1 interfaces are still open" {
		t.Errorf("closed: %v", err)
	}
	all.Leave(a)
	if err := all.Close(); err != nil {
		t.Errorf("closed: %v", err)
	}
	if err := all.Enter(a, "late"); !errors.Is(err, lnd.ErrClosed) {
		t.Errorf("entered: %v", err)
	}
}
