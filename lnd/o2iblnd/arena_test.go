package o2iblnd

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/fabric"
)

// testDevice returns a device of a fabric in memory.
func testDevice(t testing.TB) verbs.Device {
	t.Helper()
	f := fabric.New(fabric.Config{})
	t.Cleanup(f.Close)
	ch, err := f.Host("a", "10.0.0.1").Open().OpenChannel()
	if err != nil {
		t.Fatal(err)
	}
	id, err := ch.Listen(netip.MustParseAddrPort("10.0.0.1:987"), 1)
	if err != nil {
		t.Fatal(err)
	}
	dev, _, err := id.Device()
	if err != nil {
		t.Fatal(err)
	}
	return dev
}

// TestLostMemory checks that Close of the driver reports a block that is still lent when its device
// is closed, and reports no other block.
func TestLostMemory(t *testing.T) {
	for _, lost := range []bool{false, true} {
		dev := testDevice(t)
		d := &Driver{log: boundedlog.New(nil), devices: make(map[verbs.Device]*device)}
		x := &device{d: d, v: dev, local: newArena(dev, verbs.AccessLocalWrite, false), remote: newArena(dev, verbs.AccessLocalWrite, false), users: 1}
		d.devices[dev] = x
		b, err := x.remote.alloc(5000)
		if err != nil {
			t.Fatal(err)
		}
		if !lost {
			x.remote.release(b)
		}
		x.release()
		err = d.Close()
		if (err != nil) != lost || lost && !strings.Contains(err.Error(), "8192 bytes of registered memory were not released") {
			t.Errorf("lost %t: %v", lost, err)
		}
	}
}
