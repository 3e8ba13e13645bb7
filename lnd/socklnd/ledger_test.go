package socklnd

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
)

// closable is a stream that can only be closed.
type closable struct{ Stream }

func (closable) LocalAddr() netip.AddrPort  { return netip.AddrPort{} }
func (closable) RemoteAddr() netip.AddrPort { return netip.AddrPort{} }
func (closable) Close() error               { return nil }

// TestBytesOfAnEndingConnection checks that the bytes of a connection are counted exactly once, at
// every stage of its end.
func TestBytesOfAnEndingConnection(t *testing.T) {
	i := &Interface{driver: &Driver{}}
	i.Init(peering.Setup[*peer]{})
	i.options.Store(&Config{})
	p := &peer{i: i}
	p.set.Store(emptySet)
	c := newConn(p, closable{}, protocol.Control, protocol.V3, binary.LittleEndian)
	check := func(when string, conns uint64) {
		t.Helper()
		want := map[string]uint64{"connections": conns, "sent_bytes_total": 100, "received_bytes_total": 200, "copied_bytes_total": 50}
		for _, f := range i.Counters() {
			if v, ok := want[f.Name]; ok && v != f.Value {
				t.Errorf("%s: %s is %d, not %d", when, f.Name, f.Value, v)
			}
		}
	}
	c.sent.Store(100)
	c.received.Store(200)
	c.copied.Store(50)
	p.Lock()
	p.reserve(c)
	p.Unlock()
	check("up", 1)
	p.Lock()
	p.detach(func(*conn) bool { return true })
	p.Unlock()
	check("detached", 1)
	c.destroy()
	check("closed", 0)
}
