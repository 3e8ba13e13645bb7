package tmhost

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/remote"
)

const (
	// throughEvents is how many buffer events a transfer machine has room for. It is the most that each
	// of 64 machines can have with lnetd's default quotas.
	throughEvents = 1000
	// throughPoll is the poll time requested from lnetd. lnetd grants it if it is configured to.
	throughPoll = 200 * time.Microsecond
)

// openThrough opens a domain of a running lnetd. It returns the errors of remote.Core.Open.
func (h *Host) openThrough(ctx context.Context, c Config) (err error) {
	r := remote.Config{Path: c.Through, Completions: throughEvents}
	if c.Poll {
		r.PollTime = throughPoll
	}
	h.Events = throughEvents
	h.Domain, err = transport.NewDomain(ctx, remote.New(r))
	return err
}

// Through reports whether the transfer machines are in an lnetd.
func (h *Host) Through() bool { return h.Events > 0 }

// choose returns the one of lnetd's NIDs to use: the configured one, or the first one on the net of
// c.Near, or the first one. It returns ENOENT if lnetd does not have the configured NID.
func choose(nids []lnet.NID, c Config) (lnet.NID, error) {
	if c.NID == "" {
		near, _ := lnet.ParseNID(c.Near) // invalid text matches no net
		if k := slices.IndexFunc(nids, func(n lnet.NID) bool { return !near.IsZero() && n.Net() == near.Net() }); k >= 0 {
			return nids[k], nil
		}
		return firstNID(nids), nil
	}
	nid, err := lnet.ParseNID(c.NID)
	if err == nil && !slices.Contains(nids, nid) {
		err = fmt.Errorf("NID %s: lnetd has %v: %w", nid, nids, syscall.ENOENT)
	}
	return nid, err
}
