//go:build mpi && cgo

package mpi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/process"
	"github.com/lnetd/lnetd/lnd/mpilnd"
	"github.com/lnetd/lnetd/lnd/mpilnd/job"
	"github.com/lnetd/lnetd/lnd/mpilnd/shim"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/mpi"
	"github.com/lnetd/lnetd/node"
)

// rankEnv is an environment variable that makes the program a rank. Its value is an order.
const rankEnv = "LNETD_TEST_MPI_RANK"

const (
	portal   = 30
	patience = time.Minute
)

// order is the configuration of a rank.
type order struct {
	Role    string
	Shims   string        // directory of the shims
	Targets []string      // NIDs behind the proxies
	Limit   time.Duration // how long the job may take; 0: limit
	File    string        // written when a rank has what it waits for
	Pings   int           // of each rank
	Stays   bool          // a load whose message fails waits for the end of the job
}

// roles are what ranks do between the start and the end of LNet.
var roles = map[string]func(ctx context.Context, r *rank) error{
	"talk":    talk,
	"load":    load,
	"compute": compute,
	"flood":   flood,
	"idle":    idleRank,
	"lst":     takePart,
	"fault":   survive,
}

// rank is a rank with LNet.
type rank struct {
	*mpi.Process
	order   order
	inbox   *node.Inbox
	targets []lnet.ProcessID
}

func TestMain(m *testing.M) {
	if err := lnet.NameType(lnet.NamedType{Type: mpilnd.DefaultType, Name: "mpi", IP: true}); err != nil {
		panic(err)
	}
	var r rank
	process.Play(rankEnv, &r.order, r.run)
	os.Exit(runTests(m))
}

// run starts LNet, does what the role says, and ends LNet.
func (r *rank) run() error {
	ctx, cancel := context.WithTimeout(context.Background(), r.order.Limit)
	defer cancel()
	var err error
	r.Process, err = mpi.Init(ctx, mpi.Config{
		Shim: shim.Options{Dir: r.order.Shims},
		Node: node.Config{Parameters: parameters()},
		Prepare: func(n *node.Node) (err error) {
			r.inbox, err = n.OpenInbox(node.InboxConfig{Portal: portal})
			return err
		},
	})
	if err != nil {
		return err
	}
	for _, text := range r.order.Targets {
		nid, err := lnet.ParseNID(text)
		if err == nil {
			err = r.addRoutes(ctx, nid.Net())
		}
		if err != nil {
			return err
		}
		r.targets = append(r.targets, lnet.ProcessID{NID: nid})
	}
	say("up", r.Self())
	if err := roles[r.order.Role](ctx, r); err != nil {
		return fmt.Errorf("rank %d: %w", r.Self().Rank, err)
	}
	return r.Close(ctx)
}

// addRoutes adds a route to a net through each proxy.
func (r *rank) addRoutes(ctx context.Context, net lnet.Net) error {
	for _, m := range r.Members() {
		if !m.Proxy {
			continue
		}
		if err := r.Node().Admin().AddRoute(ctx, net, m.NID, node.RouteOptions{}); err != nil && !errors.Is(err, node.ErrExists) {
			return err
		}
	}
	return nil
}

// talk pings all other processes and all targets, sends PUTs of all sizes to the targets, and receives the same from
// one of them.
func talk(ctx context.Context, r *rank) error {
	for _, m := range r.Members() {
		if m.Rank == r.Self().Rank {
			continue
		}
		if _, err := r.Node().Ping(ctx, lnet.ProcessID{NID: m.NID, PID: m.PID}, node.PingOptions{}); err != nil {
			return fmt.Errorf("ping of rank %d: %w", m.Rank, err)
		}
	}
	for _, to := range r.targets {
		if _, err := r.Node().Ping(ctx, to, node.PingOptions{}); err != nil {
			return fmt.Errorf("ping of %s: %w", to, err)
		}
		if err := putAll(ctx, r.Node(), to); err != nil {
			return err
		}
	}
	if err := receiveAll(ctx, r.inbox, 1); err != nil {
		return err
	}
	say("done", r.Self())
	return nil
}

// say prints a process of the job for the test.
func say(what string, m job.Member) {
	process.Say(what, said{m.Rank, m.NID.String(), m.PID})
}

// said is what say prints.
type said struct {
	Rank int
	NID  string
	PID  lnet.PID
}

func (s said) id(t testing.TB) lnet.ProcessID {
	t.Helper()
	nid, err := lnet.ParseNID(s.NID)
	if err != nil {
		t.Fatal(err)
	}
	return lnet.ProcessID{NID: nid, PID: s.PID}
}

// sizes are around the longest payload that is sent with its header, 8192 bytes.
var sizes = []int{0, 1, 8191, 8192, 8193, 65536, lnet.MTU}

// putAll sends a PUT of each size, and waits for its ACK.
func putAll(ctx context.Context, n *node.Node, to lnet.ProcessID) error {
	for _, size := range sizes {
		if got, err := n.PutWait(ctx, content(size), to, node.PutOptions{Portal: portal, Ack: true}); err != nil || got != size {
			return fmt.Errorf("PUT of %d bytes to %s: %d, %w", size, to, got, err)
		}
	}
	return nil
}

// receiveAll receives what putAll sends, from a number of senders.
func receiveAll(ctx context.Context, inbox *node.Inbox, senders int) error {
	left := senders * len(sizes)
	for m, err := range inbox.Messages(ctx) {
		if err != nil || !bytes.Equal(m.Data, content(len(m.Data))) {
			return fmt.Errorf("PUT of %d bytes: %w", len(m.Data), err)
		}
		if left--; left == 0 {
			return nil
		}
	}
	return fmt.Errorf("%d messages are missing: %w", left, context.Cause(ctx))
}

func content(size int) []byte {
	b := make([]byte, size)
	for k := range b {
		b[k] = byte(k ^ k>>8)
	}
	return b
}

// parameters are those of nodes that notice soon that a router is back.
func parameters() *node.Parameters {
	p := node.DefaultParameters()
	p.TransactionTimeout, p.RetryCount = 31*time.Second, 2
	p.RouterCheckInterval, p.RouterPingTimeout = time.Second, 5*time.Second
	p.MaxRecoveryPingInterval = time.Second
	return &p
}
