package node_test

import (
	"context"
	"testing"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// stubborn is an NI whose Close blocks until the test releases it.
type stubborn struct {
	*port
	closing chan struct{} // closed when Close has started
	release chan struct{} // to be closed by the test
	during  func()        // if set, runs in Close: upcalls are still allowed
}

// Close implements lnd.Interface.
func (s *stubborn) Close(ctx context.Context) error {
	close(s.closing) // a second call would panic
	if s.during != nil {
		s.during()
	}
	<-s.release
	return s.port.Close(ctx)
}

// stubbornDriver opens its one interface.
type stubbornDriver struct {
	driver
	opened *stubborn
}

// Open implements lnd.Driver.
func (d *stubbornDriver) Open(ctx context.Context, c lnd.Config) (lnd.Interface, error) {
	iface, err := d.driver.Open(ctx, c)
	if err != nil {
		return nil, err
	}
	d.opened.port = iface.(*port)
	return d.opened, nil
}

func (f *fabric) addStubborn(t testing.TB, n *node.Node, c lnd.Config) *stubborn {
	t.Helper()
	d := &stubbornDriver{
		driver{fabric: f, typ: lnet.TypeTCP},
		&stubborn{closing: make(chan struct{}), release: make(chan struct{})},
	}
	c.Net = c.NID.Net()
	if _, err := n.AddNI(context.Background(), d, c); err != nil {
		t.Fatal(err)
	}
	return d.opened
}
