package server

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/endpoint"
	"github.com/lnetd/lnetd/internal/lnetd/httpd"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnd/limit"
)

// Limits of the server. Clients are local and mostly trusted, but a broken one must not block the
// daemon.
const (
	requestBodyMax = 64 << 10
	// maxRequests is the maximum number of concurrent requests of one user, for each kind of long
	// request (see Server.Handler).
	maxRequests = 64
	// maxQueries is the maximum number of replies that are made at once for requests that only ask for
	// data. Making a reply takes twice the memory of the data.
	maxQueries = 4
	// bodyTimeout is the timeout for receiving bodyProgress bytes of a document, which starts again
	// after these, and for receiving the rest of a body that is discarded.
	bodyTimeout  = 10 * time.Second
	bodyProgress = 1 << 20
)

// Server serves control requests. It needs only a Backend.
type Server struct {
	Backend Backend
	Logger  *slog.Logger // if nil, nothing is logged

	maxConnections int   // maximum connections; 0 means connectionsMax
	answers        int   // maximum bytes of replies; 0 means maxAnswerBytes
	documents      int64 // memory for documents; 0 means documentsBudget
}

// Serve answers requests on l until ctx is done. It then cancels the requests in progress, waits until they
// have ended, and returns nil. It closes l.
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
		documents: newBudget(cmp.Or(s.documents, documentsBudget)), changed: boundedlog.New(s.Logger),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", s.serve(nil, requestBodyMax, h.notFound))
	for _, o := range h.quick() {
		h.register(mux, nil, o)
	}
	// Each kind of long request has its own limit of maxRequests per user: pings and discoveries,
	// changes, commands of lst, requests that stay open, streams, and profiles.
	for _, operations := range [][]operation{h.slow(), h.loggingChanges(h.changes()), h.lst(), h.holds(), h.streams()} {
		places := &slotPool{}
		for _, o := range operations {
			h.register(mux, places, o)
		}
	}
	places := &slotPool{}
	for pattern, profile := range h.profiles() {
		mux.HandleFunc(pattern, s.serve(places, requestBodyMax, profile))
	}
	return mux
}

// register makes mux serve the operation o, with the limit of concurrent requests p.
func (h *handlers) register(mux *http.ServeMux, p *slotPool, o operation) {
	do, most := o.do, int64(requestBodyMax)
	if o.Document {
		do, most = h.budgeted(do), documentBodyMax
	}
	do = h.needingLNet(o.Info, do)
	limited, unlimited := h.serve(p, most, do), h.serve(nil, most, do)
	mux.HandleFunc(o.Pattern(), func(w http.ResponseWriter, r *http.Request) {
		if o.ends != nil && o.ends(r.URL.Query()) {
			unlimited(w, r)
			return
		}
		limited(w, r)
	})
}

// handler performs a request and returns the reply, as answer accepts it, or nil if it has sent the reply
// itself. It normally does not send the reply, so that the request no longer counts towards the limit of
// concurrent requests while the client reads the reply.
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
	// captures limits the captures that run.
	captures captureSlots
	// changed logs changes by requests.
	changed *boundedlog.Log
}

func (h *handlers) quick() []operation {
	return []operation{
		ask(h, endpoint.Version, h.version),
		askList(h, endpoint.Nets, h.nets),
		askList(h, endpoint.Peers, h.peers),
		askList(h, endpoint.Routes, h.routes),
		ask(h, endpoint.Routing, h.routing),
		ask(h, endpoint.Globals, h.globals),
		askList(h, endpoint.UDSP, h.udsp),
		askList(h, endpoint.Selection, h.selection),
		ask(h, endpoint.Explain, h.explain),
		askList(h, endpoint.Faults, h.faults),
		ask(h, endpoint.Stats, h.stats),
		ask(h, endpoint.Clients, h.clients),
		ask(h, endpoint.LstStatus, h.lstStatus),
		ask(h, endpoint.Recovery, h.recovery),
		ask(h, endpoint.CPTs, h.cpts),
		ask(h, endpoint.NUMA, h.numa),
		ask(h, endpoint.Log, h.log),
		scheduled(endpoint.SetLog, always[api.LogChange](atOnce), h.setLog),
	}
}

func (h *handlers) slow() []operation {
	return []operation{handle(endpoint.Ping, h.ping), handle(endpoint.Discover, h.discover)}
}

// streams returns the operations whose replies are streams.
func (h *handlers) streams() []operation {
	events := streamed(h, endpoint.Events, h.events)
	events.ends = func(query url.Values) bool { return query.Get("follow") != "true" }
	return []operation{events, streamed(h, endpoint.Capture, h.capture)}
}

func (h *handlers) changes() []operation {
	return []operation{
		scheduled(endpoint.Configuration, always[endpoint.Query](h.serialized), h.configuration),
		scheduled(endpoint.ChangeConfiguration, h.documentTurn, h.changeConfiguration),
		scheduled(endpoint.Endpoint[api.Document, list[api.Described, api.Peer]](endpoint.Described), always[api.Document](h.readOnlySlot), h.described),
		scheduled(endpoint.Errands, always[api.Document](h.readOnlySlot), h.errands),
		change(h, endpoint.SetLNet, h.setLNet),
		scheduled(endpoint.AddNet, always[api.NetAddition](h.serialized), h.addNet),
		change(h, endpoint.DeleteNet, h.deleteNet),
		change(h, endpoint.SetNITunables, h.setNITunables),
		change(h, endpoint.SetPeerState, h.setPeerState),
		change(h, endpoint.SetNIHealth, h.setNIHealth),
		change(h, endpoint.AddPeer, h.addPeer),
		change(h, endpoint.DeletePeer, h.deletePeer),
		change(h, endpoint.SetPeerHealth, h.setPeerHealth),
		change(h, endpoint.AddRoutes, h.addRoutes),
		change(h, endpoint.DeleteRoutes, h.deleteRoutes),
		change(h, endpoint.SetRouting, h.setRouting),
		change(h, endpoint.SetGlobals, h.setGlobals),
		change(h, endpoint.AddUDSP, h.addUDSP),
		change(h, endpoint.DeleteUDSP, h.deleteUDSP),
		change(h, endpoint.AddSelection, h.addSelection),
		change(h, endpoint.DeleteSelection, h.deleteSelection),
		change(h, endpoint.AddFault, h.addFault),
		change(h, endpoint.DeleteFaults, h.deleteFaults),
		change(h, endpoint.ResetFaults, h.resetFaults),
		change(h, endpoint.DropClient, h.dropClient),
		change(h, endpoint.ResetStats, h.resetStats),
	}
}

func (h *handlers) notFound(_ http.ResponseWriter, r *http.Request) (any, *api.Fault) {
	return nil, &api.Fault{
		Code:   api.CodeRequestInvalid,
		Text:   "unknown request: " + r.Method + " " + r.URL.Path,
		Errno:  -int(syscall.EOPNOTSUPP),
		Remedy: "lnetdctl and lnetd may be of different versions",
	}
}

// needingLNet returns a handler that rejects the requests of e while LNet is not configured, if they need
// LNet. Otherwise it calls do.
func (h *handlers) needingLNet(e *endpoint.Info, do handler) handler {
	return func(w http.ResponseWriter, r *http.Request) (any, *api.Fault) {
		if fault := h.networkDown(e); fault != nil {
			return nil, fault
		}
		return do(w, r)
	}
}

// networkDown returns a fault if LNet is not configured and the requests of e need it, and otherwise nil.
func (h *handlers) networkDown(e *endpoint.Info) *api.Fault {
	if e.WithoutLNet || !h.Backend.LNetDown() {
		return nil
	}
	return &api.Fault{
		Code: api.CodeNetworkDown, Errno: -int(syscall.ENETDOWN), Text: "Network is down",
		Cause: "LNet is not configured", Remedy: "configure it with: lnetdctl lnet configure --all",
	}
}

// serve returns an HTTP handler that performs requests with do and sends the replies. Bodies may have at
// most most bytes. All handlers with the same p share the limit of concurrent requests per user.
func (s *Server) serve(p *slotPool, most int64, do handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		sent := &requestBody{ReadCloser: r.Body}
		r.Body = http.MaxBytesReader(w, sent, most)
		api.PutNetTypes(w.Header()) // for replies that begin before do returns
		conn := connectionOf(r)
		conn.serving()
		body, fault := p.acquireWithin(conn.owner(), func() (any, *api.Fault) { return do(w, r) })
		conn.waiting()
		api.PutNetTypes(w.Header()) // a document may have named more
		r.Body = sent.ReadCloser    // net/http must find the body that it has created, to discard the rest of it
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
