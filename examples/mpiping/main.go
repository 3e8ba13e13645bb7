// Command mpiping pings all processes of an MPI job from each rank, with LNet over MPI:
//
//	make mpi-shims
//	CGO_ENABLED=1 go build -tags mpi -o bin ./examples/mpiping
//	mpirun -n 4 bin/mpiping
//
// Each rank pings all other ranks, the nodes of proxies in the job, and the NIDs in the arguments, which are behind
// proxies. It sends PUTs of several sizes to the next rank. It prints one line, and its exit status is 1 if something has
// failed.
//
// To begin a new program with it, copy this file and create a module:
//
//	go mod init example.com/mpiping
//	go get github.com/lnetd/lnetd
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"time"

	"github.com/lnetd/lnetd/lnd/mpilnd"
	"github.com/lnetd/lnetd/lnd/mpilnd/shim"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/mpi"
	"github.com/lnetd/lnetd/node"
)

const portal = 30

func main() {
	shims := flag.String("shims", "", "directory of lnetd-openmpi.so and lnetd-mpich.so (default: that of the program)")
	seconds := flag.Int("timeout", 90, "seconds until the program gives up; LNet waits 60 for other processes")
	wait := flag.Bool("wait", false, "do not end after the pings, but wait until the time is over")
	flag.Parse()
	// Other programs must give the type the same name to read the NIDs.
	if err := lnet.NameType(lnet.NamedType{Type: mpilnd.DefaultType, Name: "mpi", IP: true}); err != nil {
		log.Fatal(err)
	}
	if err := run(time.Duration(*seconds)*time.Second, *shims, flag.Args(), *wait); err != nil {
		log.Fatal(err)
	}
}

func run(limit time.Duration, shims string, targets []string, wait bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var inbox *node.Inbox
	p, err := mpi.Init(ctx, mpi.Config{
		Shim: shim.Options{Dir: shims},
		Prepare: func(n *node.Node) (err error) {
			inbox, err = n.OpenInbox(node.InboxConfig{Portal: portal})
			return err
		},
	})
	if err != nil {
		return err
	}
	if err := exchange(ctx, p, inbox, targets); err != nil {
		return fmt.Errorf("rank %d: %w", p.Self().Rank, err)
	}
	if wait {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return p.Close(ctx)
}

// exchange pings all others, and prints the result.
func exchange(ctx context.Context, p *mpi.Process, inbox *node.Inbox, targets []string) error {
	start, pings, puts := time.Now(), 0, 0
	for _, m := range p.Members() {
		if m.Rank == p.Self().Rank {
			continue
		}
		if _, err := p.Node().Ping(ctx, lnet.ProcessID{NID: m.NID, PID: m.PID}, node.PingOptions{}); err != nil {
			return fmt.Errorf("ping of rank %d on %s: %w", m.Rank, m.Name, err)
		}
		pings++
	}
	for _, text := range targets {
		if err := pingBehind(ctx, p, text); err != nil {
			return err
		}
		pings++
	}
	sent := make(chan error, 1)
	go func() { sent <- put(ctx, p) }()
	for _, size := range sizes {
		m, err := receive(ctx, inbox)
		if err != nil {
			return fmt.Errorf("PUT of %d bytes did not arrive: %w", size, err)
		}
		if !bytes.Equal(m, payload(size)) {
			return fmt.Errorf("PUT of %d bytes arrived with %d bytes, or others", size, len(m))
		}
		puts++
	}
	if err := <-sent; err != nil {
		return err
	}
	fmt.Printf("rank %d %s on %s: %d pings, %d PUTs in %s\n", p.Self().Rank, p.Self().NID, p.Library(), pings, puts,
		time.Since(start).Round(time.Millisecond))
	return nil
}

// pingBehind pings a NID on another net. Each proxy's node is a router to this net.
func pingBehind(ctx context.Context, p *mpi.Process, text string) error {
	nid, err := lnet.ParseNID(text)
	if err != nil {
		return err
	}
	for _, m := range p.Members() {
		if !m.Proxy {
			continue
		}
		err := p.Node().Admin().AddRoute(ctx, nid.Net(), m.NID, node.RouteOptions{})
		if err != nil && !errors.Is(err, node.ErrExists) {
			return err
		}
	}
	if _, err := p.Node().Ping(ctx, lnet.ProcessID{NID: nid}, node.PingOptions{}); err != nil {
		return fmt.Errorf("ping of %s: %w", nid, err)
	}
	return nil
}

// sizes are around the longest payload that is sent with its header, 8192 bytes.
var sizes = []int{0, 1, 8191, 8192, 8193, 65536, lnet.MTU}

// put sends PUTs of all sizes to the next rank of the application.
func put(ctx context.Context, p *mpi.Process) error {
	all := p.Members()
	next := all[(p.Self().Rank+1)%len(all)]
	for next.Proxy {
		next = all[(next.Rank+1)%len(all)]
	}
	for _, size := range sizes {
		to := lnet.ProcessID{NID: next.NID, PID: next.PID}
		if _, err := p.Node().PutWait(ctx, payload(size), to, node.PutOptions{Portal: portal, Ack: true}); err != nil {
			return fmt.Errorf("PUT of %d bytes to rank %d: %w", size, next.Rank, err)
		}
	}
	return nil
}

// receive returns the next message.
func receive(ctx context.Context, inbox *node.Inbox) ([]byte, error) {
	for m, err := range inbox.Messages(ctx) {
		if err != nil {
			return nil, err
		}
		return bytes.Clone(m.Data), nil
	}
	return nil, context.Cause(ctx)
}

func payload(size int) []byte {
	b := make([]byte, size)
	for k := range b {
		b[k] = byte(k ^ k>>8)
	}
	return b
}
