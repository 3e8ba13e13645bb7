package metrics

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/lnetd/lnetd/internal/lnetd/httpd"
)

// Limits on scrapers.
const (
	// A response takes about 100 kB while it is read (compress.go).
	scrapesPerAddress = 4
	scrapesAtOnce     = 64
)

// Handler serves /metrics with the counters of s, the Go runtime and the process. The format is the
// one the client asks for: text, OpenMetrics, or protobuf. Only protobuf has native histograms.
func Handler(s Source, o Options) http.Handler {
	b := &bounded{}
	g := newGatherer(s, o, b.refused.Load)
	mux := http.NewServeMux()
	h := promhttp.HandlerForTransactional(pagedGatherer{g, &sync.Pool{}}, promhttp.HandlerOpts{EnableOpenMetrics: true, DisableCompression: true})
	mux.Handle("GET /metrics", compressed(h))
	b.next = mux
	return b
}

// Serve answers scrapes on l with h until ctx is done, with limits on connections. It returns nil
// after the last scrape has ended, and closes l. webConfig is the path of a file with TLS settings
// and passwords, which is read again for each connection and request. If it is empty, there is no
// TLS and no password.
func Serve(ctx context.Context, l net.Listener, h http.Handler, webConfig string, log *slog.Logger) error {
	s := &http.Server{Handler: h, ConnState: new(connections).note}
	if webConfig == "" {
		return httpd.Serve(ctx, l, s, log)
	}
	return httpd.ServeBy(ctx, l, s, log, func(l net.Listener) error { return serveGuarded(l, s, webConfig, log) })
}
