package node_test

import (
	"context"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// manualPort is an NI whose messages the test delivers and completes.
type manualPort struct {
	*port
	placed []placed
	dead   bool // connections are closed: every message fails within Receive
}

// placed is a call of Receive.
type placed struct {
	rx    *lnd.Rx
	place lnd.Placement
}

// Receive implements lnd.Interface.
func (q *manualPort) Receive(rx *lnd.Rx, place lnd.Placement) {
	p := placed{rx, place}
	if q.dead {
		p.complete(&lnd.Error{Driver: "manual", Op: "receive", Status: lnd.StatusRemoteError, Err: lnd.ErrDisconnected})
		return
	}
	q.placed = append(q.placed, p)
}

// manualDriver opens its one port.
type manualDriver struct {
	driver
	port *manualPort
}

func (d *manualDriver) Open(ctx context.Context, c lnd.Config) (lnd.Interface, error) {
	iface, err := d.driver.Open(ctx, c)
	if err != nil {
		return nil, err
	}
	d.port.port = iface.(*port)
	return d.port, nil
}

func (f *fabric) addManualPort(t testing.TB, n *node.Node, nid string) *manualPort {
	t.Helper()
	d := &manualDriver{driver{fabric: f, typ: lnet.TypeTCP}, &manualPort{}}
	c := lnd.Config{NID: parseNID(t, nid)}
	c.Net = c.NID.Net()
	if _, err := n.AddNI(context.Background(), d, c); err != nil {
		t.Fatal(err)
	}
	return d.port
}

// patientPort is an NI whose driver has no LND timeout.
type patientPort struct{ *port }

// Timeout implements lnd.Interface.
func (p patientPort) Timeout() time.Duration { return 0 }

// patientDriver opens patientPorts.
type patientDriver struct{ driver }

func (d *patientDriver) Open(ctx context.Context, c lnd.Config) (lnd.Interface, error) {
	iface, err := d.driver.Open(ctx, c)
	if err != nil {
		return nil, err
	}
	return patientPort{iface.(*port)}, nil
}

// arrive delivers a message from a neighbour.
func (q *manualPort) arrive(from lnet.NID, h lnet.Header, rdma bool) error {
	if h.Src.IsZero() {
		h.Src = from
	}
	_, err := q.announce(from, h, rdma)
	return err
}

// announce delivers a message from a neighbour, whatever source its header has, and
// returns the driver's record of it.
func (q *manualPort) announce(from lnet.NID, h lnet.Header, rdma bool) (*lnd.Rx, error) {
	if h.Dest.IsZero() {
		h.Dest = q.nid
	}
	h.SrcPID, h.DestPID = lnet.PIDLustre, lnet.PIDLustre
	rx := &lnd.Rx{Header: h, From: lnet.ProcessID{NID: from, PID: lnet.PIDLustre}, RDMA: rdma}
	return rx, q.upper.Arrived(rx)
}

// take returns the calls of Receive since the last take.
func (q *manualPort) take() []placed {
	p := q.placed
	q.placed = nil
	return p
}

// complete ends an arrival as a driver does.
func (p placed) complete(err error) {
	if p.place.Done != nil {
		p.place.Done.Received(p.rx, err)
	}
}
