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

// Bounds of a server that has none of its own. Clients are trusted to some degree,
// but a broken one must not hold the daemon.
const (
	headPatience    = 5 * time.Second
	requestPatience = 10 * time.Second
	replyPatience   = 30 * time.Second
	idlePatience    = 2 * time.Minute
	requestHeadMax  = 16 << 10 // bytes
	// stopPatience is how long requests under way may take when ctx is done.
	stopPatience = 2 * time.Second
)

// Serve answers requests on l with s until ctx is done, then ends those under way
// and returns nil after the last. It closes l. Bounds that s does not set are filled
// in, as is the log of what goes wrong on connections, at debug; nil discards. A
// server without a Handler has nothing: what packages may have put on
// http.DefaultServeMux is never served.
func Serve(ctx context.Context, l net.Listener, s *http.Server, log *slog.Logger) error {
	return ServeBy(ctx, l, s, log, s.Serve)
}

// ServeBy is Serve with something else than s.Serve that has s serve l, such as with TLS.
func ServeBy(ctx context.Context, l net.Listener, s *http.Server, log *slog.Logger, serve func(net.Listener) error) error {
	l = patient{l}
	defer func() { _ = l.Close() }() // serve may not have come to it
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
