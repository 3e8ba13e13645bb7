package uplnd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/hostnet"
	"github.com/lnetd/lnetd/lnet"
)

// driverName is the driver's name in errors.
const driverName = "uplnd"

// defaultTimeout is the LND timeout if neither the node nor the driver has one.
const defaultTimeout = 50 * time.Second

// Driver opens the NIs of nets of one type. Server.Driver returns one.
type Driver struct {
	server *Server
	t      lnet.NetType
	proxy  string // name of the proxies that may serve its NIs; "": any
}

// Type implements lnd.Driver.
func (d *Driver) Type() lnet.NetType { return d.t }

// Open implements lnd.Driver. If the configuration has no NID, the NI gets that of the host's primary address,
// or of the device's. The NI's link is down until a proxy is attached. Open does not block.
func (d *Driver) Open(ctx context.Context, c lnd.Config) (lnd.Interface, error) {
	i, err := d.open(ctx, &c)
	if err != nil {
		return nil, fmt.Errorf("%s: open %s on %q: %w", driverName, c.Net, c.Device, err)
	}
	return i, nil
}

func (d *Driver) open(ctx context.Context, c *lnd.Config) (*ni, error) {
	if c.Upper == nil {
		return nil, errors.New("no upper")
	}
	if err := errors.Join(c.Resolve(), ctx.Err()); err != nil {
		return nil, err
	}
	if c.Net.Type() != d.t {
		return nil, fmt.Errorf("net type %s: not %s", c.Net.Type(), d.t)
	}
	if c.NID.IsZero() {
		dev, address, err := hostnet.Choose(d.server.config.Host, c.Device, c.NID)
		if err != nil {
			return nil, err
		}
		c.NID, c.Device = lnet.NIDFromIP(c.Net, address), dev.Name
	}
	i := newNI(d, c)
	if err := i.Tune(c.Options); err != nil {
		return nil, err
	}
	return i, d.server.enter(i)
}

// failure returns the error of an operation on a peer.
func failure(op string, peer lnet.NID, s lnd.Status, err error) *lnd.Error {
	return &lnd.Error{Driver: driverName, Op: op, Peer: peer, Status: s, Err: err}
}
