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

// Handler returns a handler that serves the metrics of s, of the Go runtime and of the process at /metrics, and
// o.Others at other paths. No path is redirected before o.Others sees it, so that o.Others sets the headers of all its
// responses.
// The client chooses the format: text, OpenMetrics or protobuf. Only protobuf has native histograms.
func Handler(s Source, o Options) http.Handler {
	b := &bounded{}
	g := newGatherer(s, o, b.scrapes.refused.Load)
	scrape := compressed(promhttp.HandlerForTransactional(pagedGatherer{g, &sync.Pool{}}, promhttp.HandlerOpts{EnableOpenMetrics: true, DisableCompression: true}))
	others := o.Others
	if others == nil {
		others = http.NotFoundHandler()
	}
	b.next = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/metrics":
			others.ServeHTTP(w, r)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD are allowed", http.StatusMethodNotAllowed)
		default:
			w.Header().Set("X-Content-Type-Options", "nosniff")
			scrape.ServeHTTP(w, r)
		}
	})
	return b
}

// Serve answers scrapes on l with h until ctx is done. It then waits until the last scrape has ended and
// returns nil. It closes l, and limits the number of connections. The argument webConfig is the path of a
// file with TLS settings and passwords, which is read again for each connection and request. If it is empty,
// metrics are served without TLS and passwords.
func Serve(ctx context.Context, l net.Listener, h http.Handler, webConfig string, log *slog.Logger) error {
	s := &http.Server{Handler: h, ConnState: new(connections).note}
	if webConfig == "" {
		return httpd.Serve(ctx, l, s, log)
	}
	return httpd.ServeBy(ctx, l, s, log, func(l net.Listener) error { return serveGuarded(l, s, webConfig, log) })
}
