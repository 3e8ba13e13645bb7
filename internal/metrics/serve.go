package metrics

import (
	"context"
	"log/slog"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/lnetd/lnetd/internal/httpd"
)

// Bounds on scrapers.
const (
	// A scrape takes about 1 MB while it lasts.
	scrapesPerAddress = 4
	scrapesAtOnce     = 64
)

// Handler serves /metrics with s's counters, the Go runtime's and the
// process's figures, and the version as lnetd_build_info.
func Handler(s Source, version string) http.Handler {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "lnetd_build_info", Help: "1, with the daemon's version as a label.",
		ConstLabels: prometheus.Labels{"version": version},
	})
	build.Set(1)
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		&collector{source: s},
		build,
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", new(scrapers).admit(promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true})))
	return mux
}

// Serve answers scrapes on l with h, with bounds on connections, until ctx is done and
// returns nil after the last. It closes l.
func Serve(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger) error {
	return httpd.Serve(ctx, l, &http.Server{Handler: h, ConnState: new(connections).note}, log)
}
