package soak

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// rig is a node with an NI on each rail, over a network that breaks.
type rig struct {
	driver *socklnd.Driver
	node   *node.Node
}

const (
	retries   = 1
	setupTime = 10 * time.Second
	// Fewer than the window, so that messages wait for credits.
	peerCredits = 32
)

func newRig(ctx context.Context, c *Config, s side, network socklnd.Network, log *slog.Logger) (*rig, error) {
	t := socklnd.DefaultConfig()
	t.AcceptPort, t.AcceptPortBulk = c.Port, c.Port
	t.Accept = socklnd.AcceptAll
	t.Tunables.PeerCredits = peerCredits
	t.SockTimeout = c.lndTimeout()
	t.AcceptTimeout = c.lndTimeout()
	// Broken connections shall be back at once: it is the breaking that counts.
	t.MinReconnect, t.MaxReconnect = 20*time.Millisecond, 200*time.Millisecond
	t.Network = network
	t.Seed = c.seed(s)
	t.Logger = log
	d, err := socklnd.New(t)
	if err != nil {
		return nil, err
	}
	r := &rig{driver: d}
	if r.node, err = newNode(c, log); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	for rail := range c.Rails {
		nid := c.nid(s, rail)
		if _, err = r.node.AddNI(ctx, d, lnd.Config{Net: nid.Net(), NID: nid}); err != nil {
			return nil, errors.Join(err, r.close())
		}
	}
	if err = r.node.AddPeer(c.nid(s.other(), 0), c.others(s.other())...); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

// others are a side's NIDs but the primary one.
func (c *Config) others(s side) []lnet.NID {
	var nids []lnet.NID
	for rail := 1; rail < c.Rails; rail++ {
		nids = append(nids, c.nid(s, rail))
	}
	return nids
}

func newNode(c *Config, log *slog.Logger) (*node.Node, error) {
	p := node.DefaultParameters()
	p.TransactionTimeout, p.RetryCount = c.Transaction, retries
	return node.New(node.Config{Parameters: &p, Logger: log})
}

// lndTimeout is the LND timeout that follows from the transaction timeout
// (lnet-core 6.5).
func (c *Config) lndTimeout() time.Duration {
	return max((c.Transaction-time.Second)/(retries+1), time.Second).Truncate(time.Second)
}

func (r *rig) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), setupTime)
	defer cancel()
	return errors.Join(r.node.Close(ctx), r.driver.Close())
}

// unrest says what keeps the node from being at rest, nil if nothing does.
func (r *rig) unrest() error {
	var errs []error
	say := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	c := r.node.Counters()
	if c.Committed != 0 {
		say("%d messages committed", c.Committed)
	}
	if c.Trackers != 0 {
		say("%d response trackers", c.Trackers)
		r.ailing(say) // they are pinged, and the pings tracked
	}
	for _, i := range r.node.NIs() {
		if i.Credits.Available != i.Credits.Max {
			say("NI %s: %d of %d credits", i.NID, i.Credits.Available, i.Credits.Max)
		}
	}
	for _, p := range r.node.Peers() {
		if p.Credits.Available != p.Credits.Max || p.QueuedBytes != 0 {
			say("peer %s: %d of %d credits, %d bytes queued", p.NID, p.Credits.Available, p.Credits.Max, p.QueuedBytes)
		}
	}
	return errors.Join(errs...)
}

// ailing names the NIs and peer NIs that are being recovered.
func (r *rig) ailing(say func(format string, args ...any)) {
	tell := func(what string, nid lnet.NID, h *node.Health) {
		if h.Value < node.MaxHealth {
			say("%s %s: health %d, %d pings", what, nid, h.Value, h.Pings)
		}
	}
	for _, i := range r.node.NIs() {
		tell("NI", i.NID, &i.Health)
	}
	for _, p := range r.node.Peers() {
		tell("peer", p.NID, &p.Health)
	}
}

// settle waits until the node is at rest, or for as long as patience allows.
func (r *rig) settle(patience time.Duration) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		err := r.unrest()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			return fmt.Errorf("%v after the last operation ended: %w", patience, err)
		}
	}
}

// to is the process that a side's peer is known as.
func (c *Config) to(s side) lnet.ProcessID {
	return lnet.ProcessID{NID: c.nid(s, 0), PID: lnet.PIDLustre}
}
