package node

import (
	"context"
	"errors"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
)

// Start creates a node with one NI of the driver d for each NID, as New and AddNI do.
// NIDs are in the form that lnet.ParseNID accepts, such as "10.0.0.1@tcp". Start blocks
// like AddNI. On error the node is closed; the driver always remains the caller's. Start
// returns the errors of New, lnet.ParseNID and AddNI, or ErrInHandler.
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
