package node

import (
	"context"
	"errors"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
)

// Start creates a node and adds one NI of the driver d for each NID. It is New followed by
// AddNI for each NID. NIDs are in the form that lnet.ParseNID accepts, such as
// "10.0.0.1@tcp". Like AddNI, Start blocks until the interfaces are open or ctx is done.
// On error it closes the node. It never closes d. Start returns the errors of New,
// lnet.ParseNID and AddNI, or ErrInHandler.
func Start(ctx context.Context, c Config, d lnd.Driver, nids ...string) (*Node, error) {
	if portals.InHandler() {
		return nil, ErrInHandler
	}
	n, err := New(c)
	if err != nil {
		return nil, err
	}
	for _, s := range nids {
		nid, err := lnet.ParseNID(s)
		if err == nil {
			_, err = n.AddNI(ctx, d, lnd.Config{NID: nid})
		}
		if err != nil {
			return nil, errors.Join(err, n.Close(context.WithoutCancel(ctx)))
		}
	}
	return n, nil
}
