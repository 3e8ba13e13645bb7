package transport_test

import (
	"context"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/mem"
)

// Helpers of the examples. The examples run on a network in memory. With inproc.New(node) instead of
// Network.Host they run on LNet.

// domain returns a domain on a new host.
func domain(ctx context.Context, network *mem.Network, nid string) *transport.Domain {
	return must(transport.NewDomain(ctx, network.Host(must(lnet.ParseNID(nid)))))
}

// finish closes a TM, the buffers that it used, and its domain.
func finish(ctx context.Context, tm *transport.TransferMachine, buffers ...*transport.Buffer) {
	check(tm.Shutdown(ctx))
	for _, b := range buffers {
		check(tm.Domain().Free(b))
	}
	check(tm.Domain().Close())
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
