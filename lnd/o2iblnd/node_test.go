package o2iblnd_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/fabric"
	"github.com/lnetd/lnetd/lnd/simlnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/memory"
	"github.com/lnetd/lnetd/node"
)

// network has nodes on an RDMA fabric, and on a network of simulated TCP.
type network struct {
	t     *testing.T
	fab   *fabric.Fabric
	sim   *simlnd.Fabric
	nodes []*node.Node
	procs []*fabric.Process
	rdma  []*o2iblnd.Driver
	tcp   []*socklnd.Driver
}

func onNetwork(t *testing.T, run func(t *testing.T, w *network)) {
	synctest.Test(t, func(t *testing.T) {
		w := &network{t: t, fab: fabric.New(fabric.Config{
			Link:   fabric.Link{Latency: 10 * time.Microsecond},
			Report: func(err error) { t.Error(err) },
		}), sim: simlnd.New(simlnd.Config{})}
		run(t, w)
		w.close()
	})
}

func (w *network) close() {
	for _, n := range w.nodes {
		if err := n.Close(context.Background()); err != nil {
			w.t.Error(err)
		}
	}
	for _, d := range w.rdma {
		if err := d.Close(); err != nil {
			w.t.Error(err)
		}
	}
	for _, p := range w.procs {
		if err := p.Close(); err != nil {
			w.t.Error(err)
		}
	}
	for _, d := range w.tcp {
		if err := d.Close(); err != nil {
			w.t.Error(err)
		}
	}
	w.fab.Close()
}

func (w *network) node() *node.Node {
	w.t.Helper()
	n, err := node.New(node.Config{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.nodes = append(w.nodes, n)
	return n
}

// onO2IB adds an NI on the fabric to a node.
func (w *network) onO2IB(n *node.Node, k int) lnet.ProcessID {
	w.t.Helper()
	p := w.fab.Host(fmt.Sprint("host", k), address(k)).Open()
	d, err := o2iblnd.New(config(w.t, p))
	if err != nil {
		w.t.Fatal(err)
	}
	w.procs, w.rdma = append(w.procs, p), append(w.rdma, d)
	if _, err := n.AddNI(context.Background(), d, lnd.Config{Net: o2ib, NID: nidOf(k)}); err != nil {
		w.t.Fatal(err)
	}
	return lnet.ProcessID{NID: nidOf(k), PID: lnet.PIDLustre}
}

// onTCP adds an NI on the simulated TCP network to a node.
func (w *network) onTCP(n *node.Node, k int) lnet.ProcessID {
	w.t.Helper()
	nid, err := lnet.ParseNID(fmt.Sprintf("10.9.0.%d@tcp", k+1))
	if err != nil {
		w.t.Fatal(err)
	}
	d, err := simlnd.NewDriver(w.sim.Host(fmt.Sprint("tcp", k), nid.IP().String()), socklnd.DefaultConfig())
	if err != nil {
		w.t.Fatal(err)
	}
	w.tcp = append(w.tcp, d)
	if _, err := n.AddNI(context.Background(), d, lnd.Config{Net: nid.Net(), NID: nid}); err != nil {
		w.t.Fatal(err)
	}
	return lnet.ProcessID{NID: nid, PID: lnet.PIDLustre}
}

// exchange sends data of all sizes to a node and reads them back.
func exchange(t *testing.T, from, to *node.Node, id lnet.ProcessID, registered bool) {
	t.Helper()
	for _, size := range []int{0, 1, 100, 3976, 3977, 5000, 65_537, 300_000, lnet.MTU - 1, lnet.MTU} {
		store := memory.Of(make([]byte, size))
		if registered && size > 0 {
			r, err := to.Register(t.Context(), make([]byte, size))
			if err != nil {
				t.Fatal(err)
			}
			store = r.Slice(0, size)
		}
		h, err := to.Attach(portals.Entry{Portal: 7}, portals.MD{
			Memory: store, Threshold: portals.Unlimited, Options: portals.OpPut | portals.OpGet | portals.ManageRemote | portals.Truncate,
		})
		if err != nil {
			t.Fatal(err)
		}
		data := make([]byte, size)
		for k := range data {
			data[k] = byte(k*31 + k>>8 + size)
		}
		if n, err := from.PutWait(t.Context(), data, id, node.PutOptions{Portal: 7, Ack: true}); err != nil || n != size {
			t.Errorf("PUT of %d bytes: %d, %v", size, n, err)
		}
		for _, room := range []int{size, lnet.MTU} { // the second GET asks for more than there is
			back := make([]byte, room)
			if n, err := from.GetWait(t.Context(), back, id, node.GetOptions{Portal: 7}); err != nil || n != size || !bytes.Equal(back[:n], data) {
				t.Errorf("GET of %d bytes into %d: %d, %v", size, room, n, err)
			}
		}
		if err := to.Unlink(h); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNodes checks that two nodes ping and discover each other, and exchange data of all sizes in
// both directions.
func TestNodes(t *testing.T) {
	for _, registered := range []bool{false, true} {
		t.Run(fmt.Sprint("Registered=", registered), func(t *testing.T) {
			onNetwork(t, func(t *testing.T, w *network) {
				a, b := w.node(), w.node()
				ida, idb := w.onO2IB(a, 0), w.onO2IB(b, 1)
				if info, err := a.Ping(t.Context(), idb, node.PingOptions{}); err != nil || len(info.NIs) < 1 {
					t.Errorf("ping: %v, %v", info, err)
				}
				if p, err := b.Discover(t.Context(), ida.NID); err != nil || len(p.NIs) != 1 {
					t.Errorf("discover: %+v, %v", p, err)
				}
				exchange(t, a, b, idb, registered)
				exchange(t, b, a, ida, registered)
			})
		})
	}
}

// TestNodesThroughARouter exchanges data between a node on the fabric and one on TCP, through a
// router.
func TestNodesThroughARouter(t *testing.T) {
	onNetwork(t, func(t *testing.T, w *network) {
		a, r, c := w.node(), w.node(), w.node()
		ida, onA := w.onO2IB(a, 0), w.onO2IB(r, 1)
		onC, idc := w.onTCP(r, 1), w.onTCP(c, 2)
		if err := r.Admin().EnableRouting(); err != nil {
			t.Fatal(err)
		}
		if err := a.Admin().AddRoute(t.Context(), idc.NID.Net(), onA.NID, node.RouteOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := c.Admin().AddRoute(t.Context(), o2ib, onC.NID, node.RouteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Minute) // simulated time, in which the gateways are checked
		exchange(t, a, c, idc, false)
		exchange(t, c, a, ida, true)
	})
}
