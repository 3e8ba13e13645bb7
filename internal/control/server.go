package control

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnet"
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
	requestsAtOnce  = 64 // of those that wait for other nodes, and of the others
)

// Backend is the daemon as the control interface sees it. Its methods are
// called from many goroutines at once. Their errors may be Faults; others are
// classified by Errno.
type Backend interface {
	// Version says who the daemon is.
	Version() Version
	// Nets returns all nets, lo first, then in the order of their making.
	Nets() []Net
	// Ping pings one process and blocks until it answers, or ctx is done, or
	// the ping has failed. A zero source lets the node choose.
	Ping(ctx context.Context, to lnet.ProcessID, source lnet.NID) (PingResult, error)
}

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
	mux := http.NewServeMux()
	quick, slow := make(chan struct{}, requestsAtOnce), make(chan struct{}, requestsAtOnce)
	mux.HandleFunc("GET /v1/version", s.within(quick, s.version))
	mux.HandleFunc("GET /v1/nets", s.within(quick, s.nets))
	mux.HandleFunc("POST /v1/ping", s.within(slow, s.ping))
	mux.HandleFunc("/", s.within(quick, func(w http.ResponseWriter, r *http.Request) {
		s.refuse(w, http.StatusNotFound, &Fault{
			Code:   CodeRequestInvalid,
			Text:   "no such request: " + r.Method + " " + r.URL.Path,
			Errno:  -int(syscall.EOPNOTSUPP),
			Remedy: "lnetdctl and lnetd may be of different versions",
		})
	}))
	return mux
}

// within bounds the requests that h works on at once by the room of places.
func (s *Server) within(places chan struct{}, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
		default:
			s.refuse(w, http.StatusServiceUnavailable, &Fault{
				Code: CodeBusy, Errno: -int(syscall.EBUSY),
				Text: "too many requests at once", Remedy: "try again later",
			})
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, requestBodyMax)
		h(w, r)
	}
}

func (s *Server) version(w http.ResponseWriter, _ *http.Request) {
	s.reply(w, http.StatusOK, s.Backend.Version())
}

func (s *Server) nets(w http.ResponseWriter, r *http.Request) {
	nets := s.Backend.Nets()
	if name := r.URL.Query().Get("net"); name != "" {
		want, err := lnet.ParseNet(name)
		if err != nil {
			s.refuse(w, http.StatusBadRequest, Fault{
				Code: CodeNetUnknown, Errno: -2, Text: "cannot parse net",
				Remedy: "name a net such as tcp, tcp1 or o2ib",
			}.Because(err))
			return
		}
		nets = only(nets, want)
		if len(nets) == 0 {
			s.refuse(w, http.StatusNotFound, &Fault{
				Code: CodeNetAbsent, Errno: -3, Text: "Network is down",
				Cause:  "the node has no NI on " + want.String(),
				Remedy: "see the nets that it has with: lnetdctl net show",
			})
			return
		}
	}
	s.reply(w, http.StatusOK, Nets{Nets: nets})
}

func only(nets []Net, want lnet.Net) []Net {
	for i := range nets {
		if nets[i].Net == want {
			return nets[i : i+1]
		}
	}
	return nil
}

func (s *Server) ping(w http.ResponseWriter, r *http.Request) {
	var req PingRequest
	if fault := decode(r.Body, &req); fault != nil {
		s.refuse(w, http.StatusBadRequest, fault)
		return
	}
	targets, source, timeout, fault := req.parse()
	if fault != nil {
		s.refuse(w, http.StatusBadRequest, fault)
		return
	}
	// The default bounds are for short requests.
	rc := http.NewResponseController(w)
	patience := time.Now().Add(replyPatience + time.Duration(len(targets))*timeout)
	if err := errors.Join(rc.SetReadDeadline(patience), rc.SetWriteDeadline(patience)); err != nil {
		s.logger().Debug("extend deadlines", "err", err)
	}
	reply := PingReply{Results: make([]PingResult, 0, len(targets))}
	for i, to := range targets {
		reply.Results = append(reply.Results, s.pingOne(r.Context(), req.NIDs[i], to, source, timeout))
	}
	s.reply(w, http.StatusOK, reply)
}

func (s *Server) pingOne(
	ctx context.Context, target string, to lnet.ProcessID, source lnet.NID, timeout time.Duration,
) PingResult {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	res, err := s.Backend.Ping(ctx, to, source)
	if err != nil {
		res = PingResult{Error: pingFault(target, err)}
	}
	res.Target = target
	return res
}

// pingFault puts err into lnetctl's words (lnetctl 5.5).
func pingFault(target string, err error) *Fault {
	var f *Fault
	if errors.As(err, &f) {
		return f
	}
	errno := Errno(err)
	return Fault{
		Code:   CodePingFailed,
		Errno:  -int(errno),
		Text:   "failed to ping " + target + ": " + Strerror(errno),
		Remedy: pingRemedies[errno],
	}.Because(err)
}

// parse checks the request.
func (r *PingRequest) parse() (targets []lnet.ProcessID, source lnet.NID, timeout time.Duration, _ *Fault) {
	invalid := func(text string, err error) *Fault {
		return Fault{Code: CodeRequestInvalid, Errno: -22, Text: text}.Because(err)
	}
	if len(r.NIDs) == 0 {
		return nil, source, 0, invalid("Ping needs NID targets", nil)
	}
	if len(r.NIDs) > PingTargetsMax {
		return nil, source, 0, &Fault{Code: CodeRequestInvalid, Errno: -7, Text: "specifies more NIDs than allowed"}
	}
	for _, s := range r.NIDs {
		id, err := lnet.ParseProcessID(s)
		if err != nil {
			return nil, source, 0, invalid("cannot parse NID '"+s+"'", err)
		}
		targets = append(targets, id)
	}
	if r.Source != "" {
		var err error
		if source, err = lnet.ParseNID(r.Source); err != nil {
			return nil, source, 0, invalid("cannot parse source NID '"+r.Source+"'", err)
		}
	}
	timeout = PingTimeout
	if r.Timeout > 0 {
		timeout = time.Duration(min(r.Timeout, PingTimeoutMax.Seconds()) * float64(time.Second))
	}
	return targets, source, timeout, nil
}

func decode(r io.Reader, into any) *Fault {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return Fault{Code: CodeRequestInvalid, Errno: -22, Text: "request body cannot be read"}.Because(err)
	}
	return nil
}

func (s *Server) reply(w http.ResponseWriter, status int, body any) {
	b, err := json.Marshal(body)
	if err != nil {
		s.logger().Error("encode a control reply", "err", err)
		http.Error(w, "", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if _, err := w.Write(append(b, '\n')); err != nil {
		s.logger().Debug("control client went away", "err", err)
	}
}

// refusal is the body of every reply that is not 200.
type refusal struct {
	Error *Fault `json:"error"`
}

func (s *Server) refuse(w http.ResponseWriter, status int, f *Fault) {
	s.reply(w, status, refusal{Error: f})
}

func (s *Server) logger() *slog.Logger {
	if s.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return s.Logger
}
