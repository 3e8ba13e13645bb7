package mpilnd

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/mpilnd/boundary/fake"
	"github.com/lnetd/lnetd/lnd/o2iblnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/fabric"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// A rank and a node on o2ib exchange PUTs and GETs in both directions, through a router with both nets. The drivers are
// those of MPI and of RDMA, over MPI and verbs in memory.
//
// MPI-8
func TestRoutedToO2IB(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := fabric.New(fabric.Config{Link: fabric.Link{Latency: 10 * time.Microsecond}, Report: func(err error) { t.Error(err) }})
		defer network.Close()
		j := newJob(t, 2, fake.Options{Eager: 4096, Unexpected: 64, Delay: 10 * time.Microsecond})
		defer j.close()
		routerRDMA, serverRDMA := overRDMA(t, network, "10.0.0.1"), overRDMA(t, network, "10.0.0.2")
		rank, router, server := newNode(t), newNode(t), newNode(t)
		defer func() {
			for _, n := range []*node.Node{rank, router, server} {
				if err := n.Close(context.Background()); err != nil {
					t.Error(err)
				}
			}
			routerRDMA.end(t)
			serverRDMA.end(t)
		}()
		for _, i := range []struct {
			n   *node.Node
			d   lnd.Driver
			nid lnet.NID
		}{
			{rank, j.drivers[0], nid(0)}, {router, j.drivers[1], nid(1)}, {router, routerRDMA, o2ib(1)}, {server, serverRDMA, o2ib(2)},
		} {
			if _, err := i.n.AddNI(t.Context(), i.d, lnd.Config{NID: i.nid}); err != nil {
				t.Fatal(err)
			}
		}
		if err := router.Admin().EnableRouting(); err != nil {
			t.Fatal(err)
		}
		for _, r := range []struct {
			n       *node.Node
			net     lnet.Net
			gateway lnet.NID
		}{{rank, o2ib(1).Net(), nid(1)}, {server, nid(0).Net(), o2ib(1)}} {
			if err := r.n.Admin().AddRoute(t.Context(), r.net, r.gateway, node.RouteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Minute) // both find out that the router works
		exchange(t, server, rank)
		exchange(t, rank, server)
		if forwarded := router.Admin().Counters().Routed; forwarded == 0 {
			t.Error("the router has forwarded nothing")
		}
	})
}

func o2ib(host uint32) lnet.NID {
	return lnet.NIDFromNumber(lnet.MakeNet(lnet.TypeO2IB, 0), 10<<24|host)
}

func newNode(t *testing.T) *node.Node {
	t.Helper()
	n, err := node.New(node.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// rdma is the driver of a host with an RDMA device.
type rdma struct {
	*o2iblnd.Driver
	process *fabric.Process
}

func overRDMA(t *testing.T, f *fabric.Fabric, address string) rdma {
	t.Helper()
	host := f.Host(address)
	host.AddDevice(address)
	process := host.Open()
	c := o2iblnd.DefaultConfig()
	c.Provider, c.Host = process, host
	d, err := o2iblnd.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return rdma{d, process}
}

func (r rdma) end(t *testing.T) {
	t.Helper()
	if err := errors.Join(r.Close(), r.process.Close()); err != nil {
		t.Error(err)
	}
}
