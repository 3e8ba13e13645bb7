package metrics

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/lnetd/lnetd/internal/httpd"
)

// Bounds on scrapers.
const (
	// An answer takes about 100 kB while it is read (compress.go).
	scrapesPerAddress = 4
	scrapesAtOnce     = 64
)

// Handler serves /metrics with s's counters, the Go runtime's and the process's figures,
// in the form that is asked for: text, OpenMetrics, or protobuf, which alone has native
// histograms.
func Handler(s Source, o Options) http.Handler {
	b := &bounded{}
	g := newGatherer(s, o, b.refused.Load)
	mux := http.NewServeMux()
	h := promhttp.HandlerForTransactional(thrifty{g, &sync.Pool{}}, promhttp.HandlerOpts{EnableOpenMetrics: true, DisableCompression: true})
	mux.Handle("GET /metrics", compressed(h))
	b.next = mux
	return b
}

// Serve answers scrapes on l with h, with bounds on connections, until ctx is done and
// returns nil after the last. It closes l. webConfig is the path of a file that has TLS and
// passwords, which is read anew for each connection and request; empty: neither.
func Serve(ctx context.Context, l net.Listener, h http.Handler, webConfig string, log *slog.Logger) error {
	s := &http.Server{Handler: h, ConnState: new(connections).note}
	if webConfig == "" {
		return httpd.Serve(ctx, l, s, log)
	}
	return httpd.ServeBy(ctx, l, s, log, func(l net.Listener) error { return serveGuarded(l, s, webConfig, log) })
}
