package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/internal/control/api"
	"github.com/lnetd/lnetd/lnet"
)

// Bounds on the time of a change, so that it is answered before the client gives up.
const (
	changePatience   = api.ReplyPatience - 5*time.Second
	documentPatience = api.DocumentPatience - 5*time.Second
	// retryAfter is when a client whose request was refused for want of room may try again; s.
	retryAfter = 5
)

// ask makes a handler of a question. Of the query it may have the named
// parameters, each once.
func ask[Reply any](
	answer func(ctx context.Context, q query) (Reply, *api.Fault), parameters ...string,
) handler {
	return func(_ http.ResponseWriter, r *http.Request) (any, *api.Fault) {
		q, fault := readQuery(r.URL.RawQuery, parameters)
		if fault != nil {
			return nil, fault
		}
		return answered(answer(r.Context(), q))
	}
}

// fewAtOnce makes a handler whose answers are made a few at a time, and are encoded then.
func (h *handlers) fewAtOnce(do handler) handler {
	return func(w http.ResponseWriter, r *http.Request) (any, *api.Fault) {
		select {
		case h.questions <- struct{}{}:
		case <-r.Context().Done():
			return nil, busy("other questions are answered", context.Cause(r.Context()))
		}
		defer func() { <-h.questions }()
		body, fault := do(w, r)
		if fault != nil {
			return nil, fault
		}
		return encode(r.Context(), body)
	}
}

// answered is a reply in the form that a handler returns.
func answered[Reply any](reply Reply, fault *api.Fault) (any, *api.Fault) {
	if fault != nil {
		return nil, fault
	}
	return reply, nil
}

// listed is a list as it goes over the socket: empty, but never null.
func listed[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// change makes a handler of a change, which is made whole or not at all.
func change[Request any](h *handlers, do func(ctx context.Context, r *Request) *api.Fault) handler {
	return handling(changePatience, func(Request) turn { return h.inTurn },
		func(ctx context.Context, r *Request) (api.Done, *api.Fault) { return api.Done{}, do(ctx, r) })
}

// reading makes a handler of a document that changes nothing.
func reading[Request, Reply any](h *handlers, do func(ctx context.Context, r *Request) (Reply, *api.Fault)) handler {
	return handling(documentPatience, func(Request) turn { return h.aside }, do)
}

// turn calls do, which what the pattern names asks for, when its turn has come.
type turn func(ctx context.Context, pattern string, do func() *api.Fault) *api.Fault

// handling makes a handler that does something in the turn that a request needs, and is
// answered with more than that it was done.
func handling[Request, Reply any](
	patience time.Duration, turnOf func(Request) turn, do func(ctx context.Context, r *Request) (Reply, *api.Fault),
) handler {
	return func(_ http.ResponseWriter, r *http.Request) (any, *api.Fault) {
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		var request Request
		var body any
		fault := decode(r.Body, &request)
		if fault == nil {
			fault = turnOf(request)(ctx, r.Pattern, func() *api.Fault {
				reply, f := do(ctx, &request)
				if f == nil {
					body, f = encode(ctx, reply) // answers may be large
				}
				return f
			})
		}
		return answered(body, fault)
	}
}

// aside calls do while changes may be under way, and nothing else that is called aside:
// documents may be large.
func (h *handlers) aside(ctx context.Context, _ string, do func() *api.Fault) *api.Fault {
	select {
	case h.apart <- struct{}{}:
		defer func() { <-h.apart }()
		return do()
	case <-ctx.Done():
		return busy("another document is read", context.Cause(ctx))
	}
}

// inTurn calls do when no other change is under way. LNet may have ended meanwhile.
func (h *handlers) inTurn(ctx context.Context, pattern string, do func() *api.Fault) (fault *api.Fault) {
	err := h.Backend.InTurn(ctx, func() {
		if fault = h.networkDown(pattern); fault == nil {
			fault = do()
		}
	})
	if err != nil {
		return busy("another change is under way", err)
	}
	return fault
}

func busy(text string, err error) *api.Fault {
	return api.Fault{Code: api.CodeBusy, Errno: -int(syscall.EBUSY), Text: text, Remedy: "try again later"}.Because(err)
}

// query are the parameters of a question.
type query map[string]string

// readQuery reads the parameters that a question may have.
func readQuery(raw string, known []string) (query, *api.Fault) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, invalidRequest("query cannot be read", err)
	}
	q := query{}
	for name, v := range values {
		if !slices.Contains(known, name) || len(v) != 1 {
			return nil, invalidRequest("query parameter "+strconv.Quote(name)+" is unknown or given twice", nil)
		}
		q[name] = v[0]
	}
	return q, nil
}

// nid reads a parameter that is a NID; the zero NID if there is none.
func (q query) nid(name string) (lnet.NID, *api.Fault) {
	text, ok := q[name]
	if !ok {
		return lnet.NID{}, nil
	}
	nid, err := lnet.ParseNID(text)
	if err != nil {
		return nid, invalidRequest("cannot parse NID '"+text+"'", err)
	}
	return nid, nil
}

// net reads the parameter "net"; 0 if there is none.
func (q query) net() (lnet.Net, *api.Fault) {
	text, ok := q["net"]
	if !ok {
		return 0, nil
	}
	net, err := lnet.ParseNet(text)
	if err != nil {
		return net, api.Fault{
			Code: api.CodeNetUnknown, Errno: -2, Text: "cannot parse net",
			Remedy: "name a net such as tcp, tcp1 or o2ib",
		}.Because(err)
	}
	return net, nil
}

// number reads a parameter that is a number.
func (q query) number(name string) (n uint32, given bool, _ *api.Fault) {
	text, ok := q[name]
	if !ok {
		return 0, false, nil
	}
	v, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, true, invalidRequest(name+" is not a number: "+strconv.Quote(text), err)
	}
	return uint32(v), true, nil
}

// decode reads a body of one JSON value.
func decode(r io.Reader, into any) *api.Fault {
	var m members
	d := json.NewDecoder(io.TeeReader(r, &m))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = fmt.Errorf("more follows after byte %d", d.InputOffset())
		}
	}
	if err == nil {
		err = m.rejected
	}
	if err != nil {
		return invalidRequest("request body cannot be read", err)
	}
	return nil
}

func invalidRequest(text string, err error) *api.Fault {
	return api.Fault{Code: api.CodeRequestInvalid, Errno: -int(syscall.EINVAL), Text: text}.Because(err)
}

func (s *Server) reply(w http.ResponseWriter, r *http.Request, status int, body any) {
	b, err := json.Marshal(body)
	if err != nil {
		s.logger().Error("a reply of the control interface cannot be encoded", "err", err)
		http.Error(w, "", http.StatusInternalServerError)
		return
	}
	s.send(w, r, status, append(b, '\n'))
}

// send writes an answer that is encoded.
func (s *Server) send(w http.ResponseWriter, r *http.Request, status int, b []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	p := pages{w: w, conn: connectionOf(r)}
	if err := p.write(b); err != nil {
		s.logger().Debug("control client went away", "err", err)
	}
}

func (s *Server) refuse(w http.ResponseWriter, r *http.Request, f *api.Fault) {
	status, ok := statusOf[f.Code]
	if !ok {
		status = http.StatusConflict
	}
	if f.Code == api.CodeBusy {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	s.reply(w, r, status, api.Refusal{Error: f})
}

// statusOf are the statuses of the faults that are not conflicts with what is.
var statusOf = map[api.Code]int{
	api.CodeRequestInvalid:   http.StatusBadRequest,
	api.CodeNetUnknown:       http.StatusBadRequest,
	api.CodeParameterInvalid: http.StatusBadRequest,
	api.CodeRuleInvalid:      http.StatusBadRequest,
	api.CodeConfigInvalid:    http.StatusBadRequest,
	api.CodeNIUnknown:        http.StatusNotFound,
	api.CodeNetAbsent:        http.StatusNotFound,
	api.CodePeerUnknown:      http.StatusNotFound,
	api.CodeRouteUnknown:     http.StatusNotFound,
	api.CodeRuleUnknown:      http.StatusNotFound,
	api.CodeClientUnknown:    http.StatusNotFound,
	api.CodeForbidden:        http.StatusForbidden,
	api.CodeLstKey:           http.StatusForbidden,
	api.CodeLstNoSession:     http.StatusNotFound,
	api.CodeLstUnknown:       http.StatusNotFound,
	api.CodeLstInvalid:       http.StatusBadRequest,
	api.CodeInternal:         http.StatusInternalServerError,
	api.CodeBusy:             http.StatusServiceUnavailable,
	api.CodeStopping:         http.StatusServiceUnavailable,
}
