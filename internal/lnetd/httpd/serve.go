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

// Default limits of a server. Clients are mostly trusted, but a broken one must not block the
// daemon.
const (
	headPatience    = 5 * time.Second
	requestPatience = 10 * time.Second
	replyPatience   = 30 * time.Second
	idlePatience    = 2 * time.Minute
	requestHeadMax  = 16 << 10 // bytes
	// stopPatience is how long active requests may continue after ctx is done.
	stopPatience = 2 * time.Second
)

// Serve answers requests on l with s until ctx is done. It then stops active requests and returns
// nil after the last one has ended. It closes l. Serve sets limits that s leaves at zero, and logs
// connection errors to log at debug level; a nil log discards them. If s has no Handler, all
// requests get status 404: http.DefaultServeMux, where any package may register handlers, is never
// used.
func Serve(ctx context.Context, l net.Listener, s *http.Server, log *slog.Logger) error {
	return ServeBy(ctx, l, s, log, s.Serve)
}

// ServeBy is like Serve but calls serve instead of s.Serve, for example to add TLS.
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
