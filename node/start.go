package node

import (
	"context"
	"errors"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
)

// Start makes a node with an NI of the driver d for each NID: New and AddNI in one.
// NIDs are written as lnet.ParseNID reads them, "10.0.0.1@tcp". It blocks as AddNI does.
// With an error nothing is left of the node; the driver stays the caller's, here as
// with AddNI. Errors are those of New, lnet.ParseNID and AddNI; ErrInHandler.
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
