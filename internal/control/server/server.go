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

	"github.com/lnetd/lnetd/internal/control/api"
	"github.com/lnetd/lnetd/internal/httpd"
	"github.com/lnetd/lnetd/lnd/limit"
)

// Bounds of the server. Clients are local and trusted to some degree, but a
// broken one must not hold the daemon.
const (
	requestBodyMax = 64 << 10
	// requestsAtOnce bounds the requests that one user has under way, of each kind but questions.
	requestsAtOnce = 64
	// questionsAtOnce bounds the questions whose answers are made at once. Each takes the memory
	// of what it lists, twice.
	questionsAtOnce = 4
	// bodyPatience bounds the sending of each bodyProgress bytes of a document, and of the rest.
	bodyPatience = 10 * time.Second
	bodyProgress = 1 << 20
)

// Server answers control requests. Its zero value with a Backend works.
type Server struct {
	Backend Backend
	Logger  *slog.Logger // nil discards

	most      int   // connections; 0: connectionsMax
	answers   int   // bytes of answers; 0: answersMax
	documents int64 // memory for documents; 0: documentsBudget
}

// Serve answers requests on l until ctx is done, then ends the requests under
// way and returns nil after the last. It closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	clients := newConnections(cmp.Or(s.most, min(connectionsMax, limit.DescriptorReserve()/2)), cmp.Or(s.answers, answersMax))
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
		Server: s, apart: make(chan struct{}, 1), questions: make(chan struct{}, questionsAtOnce),
		documents: newBudget(cmp.Or(s.documents, documentsBudget)),
	}
	mux := http.NewServeMux()
	for pattern, handler := range h.quick() {
		if strings.HasPrefix(pattern, http.MethodGet) {
			handler = h.fewAtOnce(handler)
		}
		mux.HandleFunc(pattern, s.serve(nil, h.needingLNet(pattern, handler)))
	}
	// Requests that wait for other nodes, changes, and requests that stay each have places of
	// their kind.
	for _, routes := range []map[string]handler{h.slow(), h.changes(), h.lst(), h.holds(), h.profiles()} {
		places := &places{}
		for pattern, handler := range routes {
			if documents[pattern] {
				handler = h.budgeted(handler)
			}
			mux.HandleFunc(pattern, s.serve(places, h.needingLNet(pattern, handler)))
		}
	}
	return mux
}

// handler does what a request asks for, and returns what it is answered with:
// nothing, a value, or what is made while it is written. It writes nothing
// itself, so that its place is free before a client reads the answer.
type handler func(w http.ResponseWriter, r *http.Request) (body any, _ *api.Fault)

// handlers are a server's, one for each kind of request.
type handlers struct {
	*Server
	// apart is full while a document is read that changes nothing.
	apart chan struct{}
	// questions is full while questionsAtOnce answers are made.
	questions chan struct{}
	// documents is the memory for those that are read or wait.
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
		"POST /v1/log":      handling(changePatience, atOnce, h.setLog),
		"/":                 h.nothing,
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
		"POST /v1/configuration":         handling(documentPatience, h.turnOfDocument, h.changeConfiguration),
		"POST /v1/configuration/show":    reading(h, h.described),
		"POST /v1/configuration/errands": reading(h, h.errands),
		"POST /v1/lnet":                  change(h, h.setLNet),
		"POST /v1/nets":                  handling(changePatience, func(api.NetAddition) turn { return h.inTurn }, h.addNet),
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

func (h *handlers) nothing(_ http.ResponseWriter, r *http.Request) (any, *api.Fault) {
	return nil, &api.Fault{
		Code:   api.CodeRequestInvalid,
		Text:   "no such request: " + r.Method + " " + r.URL.Path,
		Errno:  -int(syscall.EOPNOTSUPP),
		Remedy: "lnetdctl and lnetd may be of different versions",
	}
}

// withoutLNet are the requests that are answered while LNet is not configured.
var withoutLNet = map[string]bool{
	"/": true, "GET /v1/version": true, "POST /v1/lnet": true, "POST /v1/configuration/errands": true,
	"GET /v1/clients": true, "DELETE /v1/clients": true, "GET /v1/lst": true, "GET /v1/log": true, "POST /v1/log": true,
	"POST /v1/lst/disable": true, // the network is down, and selftest may be enabled still
}

// needingLNet is do, but refuses while LNet is not configured, unless the request needs
// it not.
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

// networkDown says that a request needs LNet, which is not configured; nil: it may be done.
func (h *handlers) networkDown(pattern string) *api.Fault {
	if withoutLNet[pattern] || !h.Backend.LNetDown() {
		return nil
	}
	return &api.Fault{
		Code: api.CodeNetworkDown, Errno: -int(syscall.ENETDOWN), Text: "Network is down",
		Cause: "LNet is not configured", Remedy: "configure it with: lnetdctl lnet configure --all",
	}
}

// serve makes a handler that answers. Of those with the same places each user
// has so many at once.
func (s *Server) serve(p *places, do handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		most := int64(requestBodyMax)
		if documents[r.Pattern] {
			most = documentBodyMax
		}
		sent := &requestBody{ReadCloser: r.Body}
		r.Body = http.MaxBytesReader(w, sent, most)
		conn := connectionOf(r)
		conn.serving()
		body, fault := p.within(conn.owner(), func() (any, *api.Fault) { return do(w, r) })
		conn.waiting()
		r.Body = sent.ReadCloser // net/http reads the rest of the body that it made
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
