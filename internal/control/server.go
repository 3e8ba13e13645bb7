package control

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"
)

// Bounds of the server. Clients are local and trusted to some degree, but a
// broken one must not hold the daemon.
const (
	requestBodyMax  = 64 << 10
	requestHeadMax  = 16 << 10
	headPatience    = 5 * time.Second
	requestPatience = 10 * time.Second
	replyPatience   = 30 * time.Second
	idlePatience    = 2 * time.Minute
	stopPatience    = 2 * time.Second
	requestsAtOnce  = 64 // of each kind
)

// Server answers control requests. Its zero value with a Backend works.
type Server struct {
	Backend Backend
	Logger  *slog.Logger // nil discards
}

// Serve answers requests on l until ctx is done, then ends the requests under
// way and returns nil after the last. It closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	hs := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: headPatience,
		ReadTimeout:       requestPatience,
		WriteTimeout:      replyPatience,
		IdleTimeout:       idlePatience,
		MaxHeaderBytes:    requestHeadMax,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          slog.NewLogLogger(s.logger().Handler(), slog.LevelDebug),
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

// Handler returns the HTTP handler that Serve uses.
func (s *Server) Handler() http.Handler {
	h := handlers{Server: s, turn: make(chan struct{}, 1)}
	mux := http.NewServeMux()
	// What is answered at once, what waits for other nodes, what changes something,
	// and what stays do not take each other's places.
	for _, routes := range []map[string]http.HandlerFunc{h.quick(), h.slow(), h.changes(), h.lst(), h.holds()} {
		places := make(chan struct{}, requestsAtOnce)
		for pattern, handler := range routes {
			mux.HandleFunc(pattern, s.within(places, handler))
		}
	}
	return mux
}

// handlers are a server's, one for each kind of request.
type handlers struct {
	*Server
	// turn is held by the change under way: they are made one after the other,
	// so that what one has checked still holds when it acts.
	turn chan struct{}
}

func (h *handlers) quick() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"GET /v1/version":   ask(h, h.version),
		"GET /v1/nets":      ask(h, h.nets, "net"),
		"GET /v1/peers":     ask(h, h.peers, "nid"),
		"GET /v1/routes":    ask(h, h.routes, "net", "gateway", "hops", "priority"),
		"GET /v1/routing":   ask(h, h.routing),
		"GET /v1/globals":   ask(h, h.globals),
		"GET /v1/udsp":      ask(h, h.udsp, "idx"),
		"GET /v1/selection": ask(h, h.selection, "type", "id"),
		"GET /v1/explain":   ask(h, h.explain, "nid", "source", "portal"),
		"GET /v1/faults":    ask(h, h.faults, "kind"),
		"GET /v1/stats":     ask(h, h.stats),
		"GET /v1/lst":       ask(h, h.lstStatus),
		"/":                 h.nothing,
	}
}

func (h *handlers) slow() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"POST /v1/ping":     h.ping,
		"POST /v1/discover": h.discover,
	}
}

func (h *handlers) changes() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"POST /v1/nets/health":  change(h, h.setNIHealth),
		"POST /v1/peers":        change(h, h.addPeer),
		"DELETE /v1/peers":      change(h, h.deletePeer),
		"POST /v1/peers/health": change(h, h.setPeerHealth),
		"POST /v1/routes":       change(h, h.addRoutes),
		"DELETE /v1/routes":     change(h, h.deleteRoutes),
		"POST /v1/routing":      change(h, h.setRouting),
		"POST /v1/globals":      change(h, h.setGlobals),
		"POST /v1/udsp":         change(h, h.addUDSP),
		"DELETE /v1/udsp":       change(h, h.deleteUDSP),
		"POST /v1/selection":    change(h, h.addSelection),
		"DELETE /v1/selection":  change(h, h.deleteSelection),
		"POST /v1/faults":       change(h, h.addFault),
		"DELETE /v1/faults":     change(h, h.deleteFaults),
		"POST /v1/faults/reset": change(h, h.resetFaults),
		"POST /v1/stats/reset":  change(h, h.resetStats),
	}
}

func (h *handlers) nothing(w http.ResponseWriter, r *http.Request) {
	h.reply(w, http.StatusNotFound, refusal{&Fault{
		Code:   CodeRequestInvalid,
		Text:   "no such request: " + r.Method + " " + r.URL.Path,
		Errno:  -int(syscall.EOPNOTSUPP),
		Remedy: "lnetdctl and lnetd may be of different versions",
	}})
}

// within bounds the requests that h works on at once by the room of places.
func (s *Server) within(places chan struct{}, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
		default:
			s.refuse(w, &Fault{
				Code: CodeBusy, Errno: -int(syscall.EBUSY),
				Text: "too many requests at once", Remedy: "try again later",
			})
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, requestBodyMax)
		h(w, r)
	}
}

func (s *Server) logger() *slog.Logger {
	if s.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return s.Logger
}
