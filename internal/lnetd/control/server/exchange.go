package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/endpoint"
	"github.com/lnetd/lnetd/internal/lnetd/spelling"
	"github.com/lnetd/lnetd/lnet"
)

const (
	// replyMargin is how long before the client's timeout lnetd ends a request, so that the client
	// still gets a reply.
	replyMargin = 5 * time.Second
	// retryAfter is the delay, in seconds, after which a client may retry a request rejected for
	// lack of resources.
	retryAfter = 5
)

// operation is an endpoint with the handler that performs its requests.
type operation struct {
	*endpoint.Info
	do handler
	// ends reports whether a request with the query ends by itself, so that it needs no place among the requests whose
	// number is limited. If it is nil, all requests need one.
	ends func(query url.Values) bool
}

// read returns what a request sends: its query parameters if the endpoint's Request is a Query, and
// otherwise its decoded body.
func read[Request, Reply any](e endpoint.Endpoint[Request, Reply], r *http.Request) (*Request, *api.Fault) {
	sent := new(Request)
	q, ok := any(sent).(*endpoint.Query)
	if !ok {
		return sent, decode(r.Body, sent)
	}
	values, fault := readQuery(r.URL.RawQuery, e.Parameters)
	*q = endpoint.Query(values)
	return sent, fault
}

// handle returns the operation for an endpoint whose requests do performs. The value sent is the decoded
// query or body.
func handle[Request, Reply any](
	e endpoint.Endpoint[Request, Reply], do func(w http.ResponseWriter, r *http.Request, sent *Request) (Reply, *api.Fault),
) operation {
	return operation{Info: e.Info, do: func(w http.ResponseWriter, r *http.Request) (any, *api.Fault) {
		sent, fault := read(e, r)
		if fault != nil {
			return nil, fault
		}
		return answered(do(w, r, sent))
	}}
}

// ask returns the operation for an endpoint whose requests only ask for data, which answer returns. The
// number of replies that are made at once is limited.
func ask[Reply any](
	h *handlers, e endpoint.Endpoint[endpoint.Query, Reply], answer func(ctx context.Context, q query) (Reply, *api.Fault),
) operation {
	o := handle(e, func(_ http.ResponseWriter, r *http.Request, q *endpoint.Query) (Reply, *api.Fault) {
		return answer(r.Context(), query(*q))
	})
	o.do = h.limitConcurrent(o.do)
	return o
}

// askList is ask for an endpoint whose reply is made from a list.
func askList[Reply, T any](
	h *handlers, e endpoint.Endpoint[endpoint.Query, Reply], answer func(ctx context.Context, q query) (list[Reply, T], *api.Fault),
) operation {
	return ask(h, endpoint.Endpoint[endpoint.Query, list[Reply, T]](e), answer)
}

// limitConcurrent returns a handler that calls do and encodes its reply. At most maxQueries replies are
// made and encoded at once; further requests wait.
func (h *handlers) limitConcurrent(do handler) handler {
	return func(w http.ResponseWriter, r *http.Request) (any, *api.Fault) {
		select {
		case h.queries <- struct{}{}:
		case <-r.Context().Done():
			return nil, busy("other requests of this kind are being processed", context.Cause(r.Context()))
		}
		defer func() { <-h.queries }()
		body, fault := do(w, r)
		if fault != nil {
			return nil, fault
		}
		return encode(r.Context(), body)
	}
}

// answered returns a reply or a fault as a handler returns it.
func answered[Reply any](reply Reply, fault *api.Fault) (any, *api.Fault) {
	if fault != nil {
		return nil, fault
	}
	return reply, nil
}

// listed returns list or, if it is nil, an empty list, because JSON would have null for nil.
func listed[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// change returns the operation for an endpoint that changes the node. The function do must apply the
// change as a whole or not at all. It is called while no other change runs.
func change[Request any](
	h *handlers, e endpoint.Endpoint[Request, api.Done], do func(ctx context.Context, r *Request) *api.Fault,
) operation {
	return scheduled(e, always[Request](h.serialized),
		func(ctx context.Context, r *Request) (api.Done, *api.Fault) { return api.Done{}, do(ctx, r) })
}

// serializer waits until do may run, and calls it. The function do performs a request of the endpoint e. If
// ctx ends first, the serializer returns a fault.
type serializer func(ctx context.Context, e *endpoint.Info, do func() *api.Fault) *api.Fault

// always returns a function that returns s for every request.
func always[Request any](s serializer) func(*Request) serializer {
	return func(*Request) serializer { return s }
}

// atOnce is the serializer for requests that need not wait for others.
func atOnce(_ context.Context, _ *endpoint.Info, do func() *api.Fault) *api.Fault { return do() }

// scheduled returns the operation for an endpoint whose requests do performs. The function turnOf returns
// the serializer that decides when do may run.
func scheduled[Request, Reply any](
	e endpoint.Endpoint[Request, Reply], turnOf func(*Request) serializer, do func(ctx context.Context, r *Request) (Reply, *api.Fault),
) operation {
	return operation{Info: e.Info, do: func(w http.ResponseWriter, r *http.Request) (any, *api.Fault) {
		ctx, cancel := context.WithTimeout(r.Context(), e.Patience-replyMargin)
		defer cancel()
		var body any
		sent, fault := read(e, r)
		p, ok := any(sent).(interface{ Preference() *bool })
		minimal := ok && prefersMinimal(r.Header)
		if minimal {
			*p.Preference() = true
		}
		if fault == nil {
			fault = turnOf(sent)(ctx, e.Info, func() *api.Fault {
				reply, f := do(ctx, sent)
				if f == nil {
					body, f = encode(ctx, reply) // a reply may be large
				}
				return f
			})
		}
		if minimal && fault == nil {
			w.Header().Set(api.PreferredHeader, api.PreferMinimal)
		}
		return answered(body, fault)
	}}
}

// prefersMinimal reports whether the headers of a request ask for a minimal reply (RFC 7240).
func prefersMinimal(headers http.Header) bool {
	for _, list := range headers.Values(api.PreferHeader) {
		for preference := range strings.SplitSeq(list, ",") {
			if strings.EqualFold(strings.TrimSpace(preference), api.PreferMinimal) {
				return true
			}
		}
	}
	return false
}

// readOnlySlot is the serializer for requests with a document that change nothing. They do not wait for
// their turn among changes, but run one at a time, because documents may be large. For the same reason,
// the backend may make them wait for another document.
func (h *handlers) readOnlySlot(ctx context.Context, _ *endpoint.Info, do func() *api.Fault) *api.Fault {
	select {
	case h.reserved <- struct{}{}:
		defer func() { <-h.reserved }()
		return do()
	case <-ctx.Done():
		return busy("another document is being processed", context.Cause(ctx))
	}
}

// serialized is the serializer for changes: it calls do while no other change runs. LNet may have been
// unconfigured while the request waited, so it checks again that LNet is configured if the request needs
// that.
func (h *handlers) serialized(ctx context.Context, e *endpoint.Info, do func() *api.Fault) (fault *api.Fault) {
	err := h.Backend.InTurn(ctx, func() {
		if fault = h.networkDown(e); fault == nil {
			fault = do()
		}
	})
	if err != nil {
		return busy("another change is in progress", err)
	}
	return fault
}

func busy(text string, err error) *api.Fault {
	return api.Fault{Code: api.CodeBusy, Errno: -int(syscall.EBUSY), Text: text, Remedy: "try again later"}.Because(err)
}

// query holds the query parameters of a request.
type query map[string]string

// readQuery parses the query of a URL. It rejects parameters that are not in known or occur twice.
func readQuery(raw string, known []string) (query, *api.Fault) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, invalidRequest("query is invalid", err)
	}
	q := query{}
	for name, v := range values {
		if !slices.Contains(known, name) || len(v) != 1 {
			return nil, invalidRequest("query parameter "+strconv.Quote(name)+" is unknown or occurs twice", nil)
		}
		q[name] = v[0]
	}
	return q, nil
}

// nid returns a NID parameter, or the zero NID if it is missing.
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

// net returns the parameter "net", or 0 if it is missing.
func (q query) net() (lnet.Net, *api.Fault) {
	text, ok := q["net"]
	if !ok {
		return 0, nil
	}
	net, err := lnet.ParseNet(text)
	if err != nil {
		return net, api.Fault{
			Code: api.CodeNetUnknown, Errno: -2, Text: "cannot parse net",
			Remedy: cmp.Or(spelling.DidYouMean(spelling.NetType(text)), "give a net such as tcp, tcp1 or o2ib"),
		}.Because(err)
	}
	return net, nil
}

// number returns a numeric parameter. The result given is false if the query does not have it.
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

// decode decodes a body, which must consist of one JSON value, into a pointer. It rejects unknown and
// duplicate members and null.
func decode(r io.Reader, into any) *api.Fault {
	var m members
	d := json.NewDecoder(io.TeeReader(r, &m))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = fmt.Errorf("unexpected data after byte %d", d.InputOffset())
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
		s.logger().Error("cannot encode a reply of the control interface; its client gets status 500", "err", err)
		http.Error(w, "", http.StatusInternalServerError)
		return
	}
	s.send(w, r, status, append(b, '\n'))
}

// send sends an encoded reply with an HTTP status.
func (s *Server) send(w http.ResponseWriter, r *http.Request, status int, b []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b))) // so that the client needs no larger buffer
	w.WriteHeader(status)
	p := pages{w: w, conn: connectionOf(r)}
	if err := p.write(b); err != nil {
		s.logger().Debug("a control client disconnected before its reply was sent", "err", err)
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

// statusOf maps the codes of faults to HTTP statuses. All other codes have the status 409, Conflict.
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
