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
	// throughEvents is for how many events of buffers a transfer machine has room: as many as
	// it can be asked for, when each of 64 is to have as much by lnetd's default quotas.
	throughEvents = 1000
	// throughPoll is how long lnetd is asked to look for work, if its settings let it.
	throughPoll = 200 * time.Microsecond
)

// openThrough makes a domain of an lnetd that runs. The errors are those of remote.Core.Open.
func (h *Host) openThrough(ctx context.Context, c Config) (err error) {
	r := remote.Config{Path: c.Through, Completions: throughEvents}
	if c.Poll {
		r.PollTime = throughPoll
	}
	h.Events = throughEvents
	h.Domain, err = transport.NewDomain(ctx, remote.New(r))
	return err
}

// Through tells whether an lnetd has the transfer machines.
func (h *Host) Through() bool { return h.Events > 0 }

// choose is which of lnetd's NIDs to stand at: the one that was asked for, or the first one
// on the same net as c.Near, or the first one. ENOENT: lnetd has no such NID.
func choose(nids []lnet.NID, c Config) (lnet.NID, error) {
	if c.NID == "" {
		near, _ := lnet.ParseNID(c.Near) // none is near to what is no NID
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
