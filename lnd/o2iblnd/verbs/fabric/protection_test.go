package fabric_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/fabric"
)

// Each forbidden access is counted and reported with its reason, and moves no bytes. An allowed one is not
// reported.
func TestForbiddenAccessesAreReported(t *testing.T) {
	const size = 100
	type scene struct {
		a, b       *node
		i          verbs.ID // of the connection, at a
		mine, away verbs.Memory
		elsewhere  verbs.Memory // on a's other device
	}
	write := func(x *scene, remote uint64, rkey uint32, from verbs.Piece) {
		_, _, err := x.i.Post(nil, []verbs.Request{{WRID: 1, Op: verbs.RDMAWrite, Remote: remote, RKey: rkey, Count: 1, Flags: verbs.FlagSignalled}}, []verbs.Piece{from})
		must(x.a.t, err)
	}
	piece := func(m verbs.Memory) verbs.Piece { return verbs.Piece{Addr: m.Addr(), Len: size, LKey: m.LKey()} }
	for _, c := range []struct {
		name   string
		do     func(x *scene)
		want   string // of the report; "": no report
		status verbs.Status
	}{
		{"allowed", func(x *scene) { write(x, x.away.Addr(), x.away.RKey(), piece(x.mine)) }, "", verbs.Success},
		{"source of another device", func(x *scene) {
			write(x, x.away.Addr(), x.away.RKey(), piece(x.elsewhere))
		}, "rxe0 of a: access to 100 bytes at 0x", verbs.LocalProtection},
		{"source of another device, reason", func(x *scene) {
			write(x, x.away.Addr(), x.away.RKey(), piece(x.elsewhere))
		}, "the key is that of another device", verbs.LocalProtection},
		{"source closed before", func(x *scene) {
			p := piece(x.mine)
			must(x.a.t, x.mine.Close())
			write(x, x.away.Addr(), x.away.RKey(), p)
		}, "not registered any more", verbs.LocalProtection},
		{"source closed meanwhile", func(x *scene) {
			write(x, x.away.Addr(), x.away.RKey(), piece(x.mine))
			must(x.a.t, x.mine.Close())
		}, "are closed while 1 posted requests and receives name them", verbs.LocalProtection},
		{"source outside of its registration", func(x *scene) {
			p := piece(x.mine)
			p.Addr++
			write(x, x.away.Addr(), x.away.RKey(), p)
		}, "not within the 100 bytes", verbs.LocalProtection},
		{"sink of another device", func(x *scene) {
			write(x, x.elsewhere.Addr(), x.elsewhere.RKey(), piece(x.mine))
		}, "rxe0 of b: access to 100 bytes at 0x", verbs.RemoteAccess},
		{"sink closed before", func(x *scene) {
			must(x.b.t, x.away.Close())
			write(x, x.away.Addr(), x.away.RKey(), piece(x.mine))
		}, "not registered any more", verbs.RemoteAccess},
		{"sink before its registration", func(x *scene) {
			write(x, x.away.Addr()-1, x.away.RKey(), piece(x.mine))
		}, "not within the 100 bytes", verbs.RemoteAccess},
		{"sink that no peer may write", func(x *scene) {
			m, err := x.b.dev.Register(make([]byte, size), verbs.AccessLocalWrite)
			must(x.b.t, err)
			write(x, m.Addr(), m.RKey(), piece(x.mine))
		}, "the key is for other accesses", verbs.RemoteAccess},
		{"key for local use", func(x *scene) {
			write(x, x.away.Addr(), x.away.LKey(), piece(x.mine))
		}, "there is no such key", verbs.RemoteAccess},
		{"receive closed meanwhile", func(x *scene) {
			m, err := x.a.dev.Register(make([]byte, size), verbs.AccessLocalWrite)
			must(x.a.t, err)
			_, _, err = x.i.Post([]verbs.Recv{{WRID: 1, Addr: m.Addr(), Len: size, LKey: m.LKey()}}, nil, nil)
			must(x.a.t, err)
			must(x.a.t, m.Close())
			must(x.a.t, x.i.Fail())
		}, "are closed while 1 posted requests and receives name them", verbs.Flushed},
	} {
		t.Run(c.name, func(t *testing.T) {
			var reports []string
			config := fabric.Config{
				Link:   fabric.Link{Latency: time.Millisecond},
				Report: func(err error) { reports = append(reports, err.Error()) },
			}
			bubble(t, config, func(t *testing.T, f *fabric.Fabric) {
				a, b := pairOf(t, f)
				f.Host("a").AddDevice("10.0.1.1")
				x := &scene{a: a, b: b}
				x.i, _ = connect(a, b)
				register := func(d verbs.Device, data string) verbs.Memory {
					m, err := d.Register([]byte(strings.Repeat(data, size)), verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
					must(t, err)
					return m
				}
				x.mine, x.away = register(a.dev, "+"), register(b.dev, "-")
				x.elsewhere = register(deviceAt(a, "10.0.1.1:987"), "*")
				c.do(x)
				a.completed(1, c.status)
				moved := strings.Contains(string(x.away.Bytes()), "+")
				if moved != (c.status == verbs.Success) {
					t.Errorf("bytes were moved: %t", moved)
				}
				synctest.Wait()
				all := strings.Join(reports, "\n")
				if (c.want == "") != (all == "") || !strings.Contains(all, c.want) || f.Faults().Protection != uint64(len(reports)) {
					t.Errorf("%d reported as %q, want %q", f.Faults().Protection, all, c.want)
				}
			})
		})
	}
}

// A receive in memory that its key does not allow fails, and so does the message for it.
func TestForbiddenReceive(t *testing.T) {
	var reports []string
	bubble(t, fabric.Config{Report: func(err error) { reports = append(reports, err.Error()) }}, func(t *testing.T, f *fabric.Fabric) {
		a, b := pairOf(t, f)
		i, j := connect(a, b)
		_, _, err := j.Post([]verbs.Recv{{WRID: 7, Addr: b.mem.Addr() + 1<<16, Len: 64, LKey: b.mem.LKey()}}, nil, nil)
		must(t, err)
		a.send(i, 1)
		b.completed(7, verbs.LocalProtection)
		a.completed(1, verbs.RemoteOperation)
		if len(reports) != 1 || !strings.Contains(reports[0], "rxe0 of b") {
			t.Errorf("reported %q", reports)
		}
	})
}

// A device may refuse registrations of programs. It counts those that are open.
func TestTheDeviceRefusesMemory(t *testing.T) {
	bubble(t, fabric.Config{}, func(t *testing.T, f *fabric.Fabric) {
		n := start(t, f.Host("a", addrA), addrA)
		d, full := f.Host("a").Device(0), errors.New("full")
		d.FailRegister(full)
		if _, err := n.dev.Register(make([]byte, 10), verbs.AccessRead); !errors.Is(err, full) || d.Registered() != 0 {
			t.Errorf("%v, %d registered", err, d.Registered())
		}
		m, err := n.dev.Alloc(4096, false, verbs.AccessRead)
		must(t, err)
		must(t, m.Close())
		d.FailRegister(nil)
		m, err = n.dev.Register(make([]byte, 10), verbs.AccessRead)
		must(t, err)
		if d.Registered() != 1 {
			t.Errorf("%d registered, want 1", d.Registered())
		}
		must(t, m.Close())
		if d.Registered() != 0 {
			t.Errorf("%d registered after Close", d.Registered())
		}
	})
}

// deviceAt returns the device with an address of n's process.
func deviceAt(n *node, addr string) verbs.Device {
	n.t.Helper()
	i, err := n.ch.Listen(netip.MustParseAddrPort(addr), 1)
	must(n.t, err)
	d, _, err := i.Device()
	must(n.t, err)
	return d
}
