package daemon

import (
	"sync"
	"time"

	"github.com/lnetd/lnetd/internal/clients"
	"github.com/lnetd/lnetd/internal/metrics"
)

// watched is what metrics are read from.
type watched struct {
	*nodeTask
	guests   *clientsTask
	selftest *selftestTask
	reloads  *reloadRecord
}

// ClientTotals implements metrics.Host.
func (w watched) ClientTotals() []clients.Total {
	if s := w.guests.server.Load(); s != nil {
		return s.Totals()
	}
	return nil
}

// WaitingNIs implements metrics.Host.
func (w watched) WaitingNIs() (list []metrics.WaitingNI) {
	for _, n := range w.engines.waiting() {
		list = append(list, metrics.WaitingNI{Net: n.Net, NI: n.String()})
	}
	return list
}

// Selftest implements metrics.Host.
func (w watched) Selftest() metrics.Selftest { return w.selftest.figures() }

// Configuration implements metrics.Host.
func (w watched) Configuration() metrics.Configuration { return w.reloads.get() }

// figures are what metrics show of LNet selftest.
func (t *selftestTask) figures() (f metrics.Selftest) {
	t.mu.Lock()
	a, c, ending := t.agent, t.console, t.ending
	t.mu.Unlock()
	if a == nil || ending {
		return f
	}
	f.Enabled, f.RPCs = true, a.Counters()
	_, err := c.ShowSession()
	f.Console = err == nil
	s, ok := a.Session()
	if !ok {
		return f
	}
	f.Node, f.BRWErrors, f.PingErrors = true, s.BRWErrors, s.PingErrors
	for _, b := range s.Batches {
		for k := range b.Tests {
			if test := &b.Tests[k]; test.Client {
				f.Clients++
				f.Units += test.Active
			} else {
				f.Servers++
			}
		}
	}
	return f
}

// reloadRecord is what has become of the configuration. The zero value knows none.
type reloadRecord struct {
	mu     sync.Mutex // guards record
	record metrics.Configuration
}

func (r *reloadRecord) get() metrics.Configuration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.record
}

// began notes the configuration that lnetd begins with.
func (r *reloadRecord) began(sha256 string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.record.SHA256, r.record.Loaded = sha256, now
}

// failed notes a reload that changed nothing.
func (r *reloadRecord) failed(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.record.Failed++
	r.record.Last, r.record.LastFailed = now, true
}

// succeeded notes a reload, whose last parts may have to wait for a restart.
func (r *reloadRecord) succeeded(sha256 string, partly bool, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &r.record
	if partly {
		c.Partial++
	} else {
		c.Succeeded++
	}
	c.SHA256, c.Loaded, c.Last, c.LastFailed = sha256, now, now, false
}
