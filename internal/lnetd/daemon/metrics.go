package daemon

import (
	"context"
	"net"
	"sync"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/metrics"
	"github.com/lnetd/lnetd/internal/lnetd/statuspage"
)

// metricsTask returns a task that serves the metrics of w on the listener l, and whether lnetd is alive and ready. If
// the configuration asks for it, the task also serves the status page of s.
func (d *Daemon) metricsTask(l net.Listener, w watched, s shown) Task {
	d.log.Info("serving metrics", "address", l.Addr().String(), "path", "/metrics", "status_page", d.config.Metrics.StatusPage)
	o := metrics.Options{
		Version: api.BuildVersion(), Revision: api.BuildRevision(),
		LustreCompat: d.config.Metrics.LustreCompat, PeersMax: d.config.Metrics.Peers, Others: statuspage.Health(s),
	}
	sample := func(context.Context) {}
	if d.config.Metrics.StatusPage {
		page := statuspage.New(s)
		o.Others, sample = page, page.Run
	}
	return newServeTask("metrics", func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		var sampling sync.WaitGroup
		sampling.Go(func() { sample(ctx) })
		defer sampling.Wait()
		defer cancel()
		return metrics.Serve(ctx, l, metrics.Handler(w, o), d.config.Metrics.WebConfig, d.log)
	})
}

// shown is what the status page shows. It implements statuspage.Source.
type shown struct {
	*backend
	daemon *Daemon
}

// Stuck implements statuspage.Node.
func (s shown) Stuck() string {
	if stuck := s.daemon.stuck.Load(); stuck != nil {
		return *stuck
	}
	return ""
}
