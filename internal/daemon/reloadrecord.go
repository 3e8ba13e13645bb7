package daemon

import (
	"sync"
	"time"

	"github.com/lnetd/lnetd/internal/config"
	"github.com/lnetd/lnetd/internal/metrics"
)

// reloadRecord is what has become of the configuration: metrics and the status show it. The
// zero value knows none.
type reloadRecord struct {
	mu     sync.Mutex // guards the rest
	record metrics.Configuration
	why    string // the last reload has failed; empty: it has not
}

// reloadOutcome is what has come of a reload.
type reloadOutcome struct {
	holds  *config.Config // that was taken; nil: the one before holds
	partly bool           // the rest of it waits for a restart
	err    error          // it has failed, or there is a fault in what belongs to it
}

func (r *reloadRecord) get() metrics.Configuration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.record
}

// failure is why the last reload has failed; empty: it has not.
func (r *reloadRecord) failure() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.why
}

// began notes the configuration that lnetd begins with.
func (r *reloadRecord) began(c *config.Config, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.record.SHA256, r.record.Loaded = c.SHA256, now
}

// note notes a reload.
func (r *reloadRecord) note(out reloadOutcome, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &r.record
	c.Last, c.LastFailed, r.why = now, out.err != nil, ""
	if out.holds != nil {
		c.SHA256, c.Loaded = out.holds.SHA256, now
	}
	switch {
	case out.err != nil:
		r.why = causeOf(out.err)
		c.Failed++
	case out.partly:
		c.Partial++
	default:
		c.Succeeded++
	}
}
