package metrics

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Bounds on scrapers.
const (
	headPatience    = 5 * time.Second
	requestPatience = 10 * time.Second
	replyPatience   = 30 * time.Second
	idlePatience    = 2 * time.Minute
	stopPatience    = 2 * time.Second
	headMax         = 16 << 10
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

// Serve answers scrapes on l with h until ctx is done and returns nil after
// the last. It closes l.
func Serve(ctx context.Context, l net.Listener, h http.Handler, logger *slog.Logger) error {
	hs := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headPatience,
		ReadTimeout:       requestPatience,
		WriteTimeout:      replyPatience,
		IdleTimeout:       idlePatience,
		MaxHeaderBytes:    headMax,
		ConnState:         new(connections).note,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
	served := make(chan error, 1)
	go func() { served <- hs.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
	defer cancel()
	err := hs.Shutdown(stop)
	if errors.Is(err, context.DeadlineExceeded) {
		err = hs.Close()
	}
	<-served
	return err
}
