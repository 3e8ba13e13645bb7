package soak

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// testNode is a node with an NI on each rail, over a network whose connections break.
type testNode struct {
	driver *socklnd.Driver
	node   *node.Node
}

const (
	retries   = 1
	setupTime = 2 * time.Minute
	// peerCredits is less than the default window, so that messages wait for credits.
	peerCredits = 32
)

func newTestNode(ctx context.Context, c *Config, s side, network socklnd.Network, log *slog.Logger) (*testNode, error) {
	t := socklnd.UnprivilegedConfig(c.Port)
	t.Tunables.PeerCredits = peerCredits
	t.SockTimeout = c.lndTimeout()
	t.AcceptTimeout = c.lndTimeout()
	// Short pauses before a reconnect, because the test is about broken connections.
	t.MinReconnect, t.MaxReconnect = 20*time.Millisecond, 200*time.Millisecond
	t.Network = network
	t.Seed = c.seed(s)
	t.Logger = log
	d, err := socklnd.New(t)
	if err != nil {
		return nil, err
	}
	r := &testNode{driver: d}
	if r.node, err = newNode(c, log); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	for rail := range c.Rails {
		nid := c.nid(s, rail)
		if _, err = r.node.AddNI(ctx, d, lnd.Config{Net: nid.Net(), NID: nid}); err != nil {
			return nil, errors.Join(err, r.close())
		}
	}
	return r, nil
}

// nids returns the NIDs of a side, the primary one first.
func (c *Config) nids(s side) []lnet.NID {
	var nids []lnet.NID
	for rail := range c.Rails {
		nids = append(nids, c.nid(s, rail))
	}
	return nids
}

func newNode(c *Config, log *slog.Logger) (*node.Node, error) {
	p := node.DefaultParameters()
	p.TransactionTimeout, p.RetryCount = c.Transaction, retries
	return node.New(node.Config{Parameters: &p, Logger: log})
}

// lndTimeout returns the LND timeout, which follows from the transaction timeout (lnet-core 6.5).
func (c *Config) lndTimeout() time.Duration {
	return max((c.Transaction-time.Second)/(retries+1), time.Second).Truncate(time.Second)
}

func (r *testNode) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), setupTime)
	defer cancel()
	return errors.Join(r.node.Close(ctx), r.driver.Close())
}

// notIdle returns nil if the node is idle. Otherwise the error lists what is in progress: messages,
// response trackers, credits in use, discovery.
func (r *testNode) notIdle() error {
	var errs []error
	say := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	c := r.node.Admin().Counters()
	if c.Committed != 0 {
		say("%d messages committed", c.Committed)
	}
	if c.Trackers != 0 {
		say("%d response trackers", c.Trackers)
		r.reportUnhealthy(say) // unhealthy NIs are pinged, and these pings have trackers
	}
	for _, i := range r.node.NIs() {
		if i.Credits.Available != i.Credits.Max {
			say("NI %s: %d of %d credits", i.NID, i.Credits.Available, i.Credits.Max)
		}
	}
	for _, p := range r.node.Peers() {
		if p.State.Has(discovery.Discovering) {
			say("peer %s: %s", p.Primary, p.State)
		}
		for _, i := range p.NIs {
			if i.Credits.Available != i.Credits.Max || i.QueuedBytes != 0 {
				say("peer %s: %d of %d credits, %d bytes queued", i.NID, i.Credits.Available, i.Credits.Max, i.QueuedBytes)
			}
		}
	}
	return errors.Join(errs...)
}

// reportUnhealthy calls say for each NI and peer NI without full health. They are in recovery.
func (r *testNode) reportUnhealthy(say func(format string, args ...any)) {
	tell := func(what string, nid lnet.NID, h *node.Health) {
		if h.Value < node.MaxHealth {
			say("%s %s: health %d, %d pings", what, nid, h.Value, h.Pings)
		}
	}
	for _, i := range r.node.NIs() {
		tell("NI", i.NID, &i.Health)
	}
	for _, p := range r.node.Peers() {
		for _, i := range p.NIs {
			tell("peer", i.NID, &i.Health)
		}
	}
}

// awaitIdle waits until the node is idle. If it is not idle after patience, awaitIdle returns an error.
func (r *testNode) awaitIdle(patience time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := until(ctx, 20*time.Millisecond, r.notIdle); err != nil {
		return fmt.Errorf("%v after the last operation ended: %w", patience, err)
	}
	return nil
}

// awaitPeerNIDs waits until discovery has found all NIDs of the other side, or ctx is done. It is called
// before connections are broken: the loss of a discovery message is detected only after a transaction
// timeout, which may be most of the soak.
func (r *testNode) awaitPeerNIDs(ctx context.Context, nids []lnet.NID) error {
	return until(ctx, time.Millisecond, func() error {
		if p, ok := r.node.Peer(nids[0]); !ok || len(p.NIs) != len(nids) {
			return fmt.Errorf("not all of %v are known as NIDs of one peer", nids)
		}
		return nil
	})
}

// until calls problem repeatedly until it returns nil or ctx is done. It returns the last result of
// problem.
func until(ctx context.Context, pause time.Duration, problem func() error) error {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		err := problem()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

// leastShare defines the minimum load of a rail: each rail must carry at least 1/leastShare of the
// messages.
const leastShare = 20

// rails returns the number of messages sent to each NID of the other side. It returns an error if a rail
// has carried too few messages, or if the NIDs found by discovery are wrong.
func (r *testNode) rails(nids []lnet.NID) (sent []uint64, _ error) {
	p, ok := r.node.Peer(nids[0])
	if !ok {
		return nil, fmt.Errorf("peer %s is unknown", nids[0])
	}
	all := uint64(0)
	for _, i := range p.NIs {
		sent = append(sent, i.Traffic.Sent.Total())
		all += i.Traffic.Sent.Total()
	}
	var known []lnet.NID
	for k, i := range p.NIs {
		if known = append(known, i.NID); sent[k] < all/leastShare {
			return sent, fmt.Errorf("%s was sent %d of %d messages", i.NID, sent[k], all)
		}
	}
	if p.Primary != nids[0] || !p.MultiRail || !slices.Equal(known, nids) {
		return sent, fmt.Errorf("peer %s has primary NID %s, NIDs %s and state %s; want Multi-Rail with NIDs %s",
			nids[0], p.Primary, known, p.State, nids)
	}
	return sent, nil
}

// to returns the process ID to which messages for side s are sent.
func (c *Config) to(s side) lnet.ProcessID {
	return lnet.ProcessID{NID: c.nid(s, 0), PID: lnet.PIDLustre}
}
