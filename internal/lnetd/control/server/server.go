package server

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/httpd"
	"github.com/lnetd/lnetd/lnd/limit"
)

// Limits of the server. Clients are local and mostly trusted, but a broken one must not block the
// daemon.
const (
	requestBodyMax = 64 << 10
	// maxRequests is the maximum number of concurrent requests of one user, for each kind except
	// questions.
	maxRequests = 64
	// maxQueries is the maximum number of replies to GET requests that are made at once. Each
	// takes twice the memory of the listed data.
	maxQueries = 4
	// bodyTimeout is the timeout for receiving each bodyProgress bytes of a document, and the rest
	// of a body.
	bodyTimeout  = 10 * time.Second
	bodyProgress = 1 << 20
)

// Server serves control requests. It needs only a Backend.
type Server struct {
	Backend Backend
	Logger  *slog.Logger // nil discards

	maxConnections int   // maximum connections; 0 means connectionsMax
	answers        int   // maximum bytes of replies; 0 means maxAnswerBytes
	documents      int64 // memory for documents; 0 means documentsBudget
}

// Serve answers requests on l until ctx is done. It then stops active requests and returns nil
// after the last one has ended. It closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	clients := newConnections(cmp.Or(s.maxConnections, min(connectionsMax, limit.DescriptorReserve()/2)), cmp.Or(s.answers, maxAnswerBytes))
	return httpd.Serve(ctx, l, &http.Server{
		Handler:           s.Handler(),
		ConnContext:       clients.opened,
		ConnState:         clients.changed,
		ReadHeaderTimeout: api.HeadPatience,
		WriteTimeout:      api.ReplyPatience,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}, s.Logger)
}

// Handler returns the HTTP handler that Serve uses.
func (s *Server) Handler() http.Handler {
	h := handlers{
		Server: s, reserved: make(chan struct{}, 1), queries: make(chan struct{}, maxQueries),
		documents: newBudget(cmp.Or(s.documents, documentsBudget)),
	}
	mux := http.NewServeMux()
	for pattern, handler := range h.quick() {
		if strings.HasPrefix(pattern, http.MethodGet) {
			handler = h.limitConcurrent(handler)
		}
		mux.HandleFunc(pattern, s.serve(nil, h.needingLNet(pattern, handler)))
	}
	// Each kind of long request has its own limit: requests that wait for other nodes, changes, and
	// requests that stay open.
	for _, routes := range []map[string]handler{h.slow(), h.changes(), h.lst(), h.holds(), h.profiles()} {
		places := &slotPool{}
		for pattern, handler := range routes {
			if documents[pattern] {
				handler = h.budgeted(handler)
			}
			mux.HandleFunc(pattern, s.serve(places, h.needingLNet(pattern, handler)))
		}
	}
	return mux
}

// handler performs a request and returns the reply: nil, a value, or a reply that is generated
// while it is written. It does not write the reply itself, so that its slot is free before the
// client reads the reply.
type handler func(w http.ResponseWriter, r *http.Request) (body any, _ *api.Fault)

// handlers holds the handlers of a server and their limits.
type handlers struct {
	*Server
	// reserved holds one token while a document is processed outside of changes.
	reserved chan struct{}
	// queries holds one token for each reply that is being made.
	queries chan struct{}
	// documents is the memory budget for documents.
	documents *budget
}

func (h *handlers) quick() map[string]handler {
	return map[string]handler{
		"GET /v1/version":   ask(h.version),
		"GET /v1/nets":      ask(h.nets, "net"),
		"GET /v1/peers":     ask(h.peers, "nid", "page", "detail"),
		"GET /v1/routes":    ask(h.routes, "net", "gateway", "hops", "priority"),
		"GET /v1/routing":   ask(h.routing),
		"GET /v1/globals":   ask(h.globals),
		"GET /v1/udsp":      ask(h.udsp, "idx"),
		"GET /v1/selection": ask(h.selection, "type", "id"),
		"GET /v1/explain":   ask(h.explain, "nid", "source", "portal"),
		"GET /v1/faults":    ask(h.faults, "kind"),
		"GET /v1/stats":     ask(h.stats),
		"GET /v1/clients":   ask(h.clients),
		"GET /v1/lst":       ask(h.lstStatus),
		"GET /v1/recovery":  ask(h.recovery),
		"GET /v1/cpts":      ask(h.cpts, "nids"),
		"GET /v1/numa":      ask(h.numa),
		"GET /v1/log":       ask(h.log),
		"POST /v1/log":      handling(changeTimeout, atOnce, h.setLog),
		"/":                 h.notFound,
	}
}

func (h *handlers) slow() map[string]handler {
	return map[string]handler{
		"POST /v1/ping":     h.ping,
		"POST /v1/discover": h.discover,
	}
}

func (h *handlers) changes() map[string]handler {
	return map[string]handler{
		"GET /v1/configuration":          h.configuration,
		"POST /v1/configuration":         handling(documentTimeout, h.documentTurn, h.changeConfiguration),
		"POST /v1/configuration/show":    reading(h, h.described),
		"POST /v1/configuration/errands": reading(h, h.errands),
		"POST /v1/lnet":                  change(h, h.setLNet),
		"POST /v1/nets":                  handling(changeTimeout, func(api.NetAddition) serializer { return h.serialized }, h.addNet),
		"DELETE /v1/nets":                change(h, h.deleteNet),
		"POST /v1/nets/tunables":         change(h, h.setNITunables),
		"POST /v1/peers/state":           change(h, h.setPeerState),
		"POST /v1/nets/health":           change(h, h.setNIHealth),
		"POST /v1/peers":                 change(h, h.addPeer),
		"DELETE /v1/peers":               change(h, h.deletePeer),
		"POST /v1/peers/health":          change(h, h.setPeerHealth),
		"POST /v1/routes":                change(h, h.addRoutes),
		"DELETE /v1/routes":              change(h, h.deleteRoutes),
		"POST /v1/routing":               change(h, h.setRouting),
		"POST /v1/globals":               change(h, h.setGlobals),
		"POST /v1/udsp":                  change(h, h.addUDSP),
		"DELETE /v1/udsp":                change(h, h.deleteUDSP),
		"POST /v1/selection":             change(h, h.addSelection),
		"DELETE /v1/selection":           change(h, h.deleteSelection),
		"POST /v1/faults":                change(h, h.addFault),
		"DELETE /v1/faults":              change(h, h.deleteFaults),
		"POST /v1/faults/reset":          change(h, h.resetFaults),
		"DELETE /v1/clients":             change(h, h.dropClient),
		"POST /v1/stats/reset":           change(h, h.resetStats),
	}
}

func (h *handlers) notFound(_ http.ResponseWriter, r *http.Request) (any, *api.Fault) {
	return nil, &api.Fault{
		Code:   api.CodeRequestInvalid,
		Text:   "no such request: " + r.Method + " " + r.URL.Path,
		Errno:  -int(syscall.EOPNOTSUPP),
		Remedy: "lnetdctl and lnetd may be of different versions",
	}
}

// withoutLNet are the requests that are served while LNet is not configured.
var withoutLNet = map[string]bool{
	"/": true, "GET /v1/version": true, "POST /v1/lnet": true, "POST /v1/configuration/errands": true,
	"GET /v1/clients": true, "DELETE /v1/clients": true, "GET /v1/lst": true, "GET /v1/log": true, "POST /v1/log": true,
	"POST /v1/lst/disable": true, // selftest may still be enabled while the network is down
}

// needingLNet wraps do. The result rejects requests while LNet is not configured, except those that
// do not need LNet.
func (h *handlers) needingLNet(pattern string, do handler) handler {
	if _, profile := h.profiles()[pattern]; profile {
		return do
	}
	return func(w http.ResponseWriter, r *http.Request) (any, *api.Fault) {
		if fault := h.networkDown(pattern); fault != nil {
			return nil, fault
		}
		return do(w, r)
	}
}

// networkDown returns an error if LNet is not configured and the request needs it, otherwise nil.
func (h *handlers) networkDown(pattern string) *api.Fault {
	if withoutLNet[pattern] || !h.Backend.LNetDown() {
		return nil
	}
	return &api.Fault{
		Code: api.CodeNetworkDown, Errno: -int(syscall.ENETDOWN), Text: "Network is down",
		Cause: "LNet is not configured", Remedy: "configure it with: lnetdctl lnet configure --all",
	}
}

// serve returns an HTTP handler for do. All handlers with the same p share the limits per user.
func (s *Server) serve(p *slotPool, do handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		most := int64(requestBodyMax)
		if documents[r.Pattern] {
			most = documentBodyMax
		}
		sent := &requestBody{ReadCloser: r.Body}
		r.Body = http.MaxBytesReader(w, sent, most)
		conn := connectionOf(r)
		conn.serving()
		body, fault := p.acquireWithin(conn.owner(), func() (any, *api.Fault) { return do(w, r) })
		conn.waiting()
		r.Body = sent.ReadCloser // net/http reads the rest of its own body
		switch {
		case fault != nil:
			s.refuse(w, r, fault)
		case body != nil:
			s.answer(w, r, body)
		}
		conn.waiting()
		s.linger(w, r, sent)
	}
}

func (s *Server) logger() *slog.Logger {
	if s.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return s.Logger
}
