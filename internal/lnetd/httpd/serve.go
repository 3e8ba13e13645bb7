package httpd

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Default limits of a server. Clients are mostly trusted, but a faulty client must not block the daemon.
const (
	headPatience    = 5 * time.Second
	requestPatience = 10 * time.Second
	replyPatience   = 30 * time.Second
	idlePatience    = 2 * time.Minute
	requestHeadMax  = 16 << 10 // bytes
	// stopPatience is how long requests in progress may continue after ctx is done, before their
	// connections are closed.
	stopPatience = 2 * time.Second
)

// Serve answers requests on l with s until ctx is done. It then waits for requests in progress for up to
// stopPatience, closes all connections, and returns nil. It closes l. Limits of s that are zero get defaults.
// Serve logs connection errors at debug level; if log is nil, it discards them. If s has no Handler, all
// requests get the status 404, and http.DefaultServeMux is not used, because any package may register handlers
// there.
func Serve(ctx context.Context, l net.Listener, s *http.Server, log *slog.Logger) error {
	return ServeBy(ctx, l, s, log, s.Serve)
}

// ServeBy is like Serve but calls serve instead of s.Serve, for example to add TLS. The function serve must
// serve s on the listener that it gets.
func ServeBy(ctx context.Context, l net.Listener, s *http.Server, log *slog.Logger, serve func(net.Listener) error) error {
	l = patient{l}
	defer func() { _ = l.Close() }() // serve may not have closed it
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if s.Handler == nil {
		s.Handler = http.NotFoundHandler()
	}
	s.ReadHeaderTimeout = cmp.Or(s.ReadHeaderTimeout, headPatience)
	s.ReadTimeout = cmp.Or(s.ReadTimeout, requestPatience)
	s.WriteTimeout = cmp.Or(s.WriteTimeout, replyPatience)
	s.IdleTimeout = cmp.Or(s.IdleTimeout, idlePatience)
	s.MaxHeaderBytes = cmp.Or(s.MaxHeaderBytes, requestHeadMax)
	s.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug)

	served := make(chan error, 1)
	go func() { served <- serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
	defer cancel()
	err := s.Shutdown(stop)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.Close()
	}
	<-served
	return err
}
