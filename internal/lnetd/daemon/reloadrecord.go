package daemon

import (
	"sync"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/metrics"
)

// reloadRecord records the outcome of reloads, for metrics and the status. The zero value is
// empty.
type reloadRecord struct {
	mu     sync.Mutex // guards the fields below
	record metrics.Configuration
	why    string // why the last reload failed; empty if it succeeded
}

// reloadOutcome is the outcome of one reload.
type reloadOutcome struct {
	holds  *config.Config // the configuration that was applied, or nil if none was
	partly bool           // parts of the configuration need a restart
	err    error          // why the reload failed, or an error in a file that the configuration names
}

func (r *reloadRecord) get() metrics.Configuration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.record
}

// failure returns why the last reload failed, or "" if it succeeded.
func (r *reloadRecord) failure() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.why
}

// start records c as the configuration with which lnetd starts, at the time now.
func (r *reloadRecord) start(c *config.Config, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.record.SHA256, r.record.Loaded = c.SHA256, now
}

// note records the outcome of a reload that ended at the time now.
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
