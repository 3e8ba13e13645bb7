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
	// throughEvents is the number of buffer events for which a transfer machine in lnetd has room. With
	// lnetd's default quotas, 64 machines can have as many each.
	throughEvents = 1000
	// throughPoll is the poll time that is requested from lnetd. lnetd polls only if its configuration
	// allows it.
	throughPoll = 200 * time.Microsecond
)

// openThrough opens a domain as a client of a running lnetd. It returns the errors of remote.Core.Open.
func (h *Host) openThrough(ctx context.Context, c Config) (err error) {
	r := remote.Config{Path: c.Through, Completions: throughEvents}
	if c.Poll {
		r.PollTime = throughPoll
	}
	h.Events = throughEvents
	h.Domain, err = transport.NewDomain(ctx, remote.New(r))
	return err
}

// Through reports whether the host is a client of a running lnetd.
func (h *Host) Through() bool { return h.Events > 0 }

// chooseNID chooses one of lnetd's NIDs: c.NID if it is set, otherwise the first one on the net of
// c.Near, otherwise the first one. It returns ENOENT if lnetd does not have the NID c.NID.
func chooseNID(nids []lnet.NID, c Config) (lnet.NID, error) {
	if c.NID == "" {
		near, _ := lnet.ParseNID(c.Near) // an invalid NID matches no net
		if k := slices.IndexFunc(nids, func(n lnet.NID) bool { return !near.IsZero() && n.Net() == near.Net() }); k >= 0 {
			return nids[k], nil
		}
		return firstNID(nids), nil
	}
	nid, err := lnet.ParseNID(c.NID)
	if err == nil && !slices.Contains(nids, nid) {
		err = fmt.Errorf("lnetd does not have the NID %s, but only %v: %w", nid, nids, syscall.ENOENT)
	}
	return nid, err
}
