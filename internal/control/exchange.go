package control

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

	"github.com/lnetd/lnetd/lnet"
)

// changePatience bounds a change with all that it waits for, so that its end is
// told before the client gives up.
const changePatience = ReplyPatience - 5*time.Second

// ask makes a handler of a question. Of the query it may have the named
// parameters, each once.
func ask[Reply any](
	answer func(ctx context.Context, q query) (Reply, *Fault), parameters ...string,
) handler {
	return func(_ http.ResponseWriter, r *http.Request) (any, *Fault) {
		q, fault := readQuery(r.URL.RawQuery, parameters)
		if fault != nil {
			return nil, fault
		}
		return answered(answer(r.Context(), q))
	}
}

// answered is a reply in the form that a handler returns.
func answered[Reply any](reply Reply, fault *Fault) (any, *Fault) {
	if fault != nil {
		return nil, fault
	}
	return reply, nil
}

// Done is the reply to a change.
type Done struct{}

// listed is a list as it goes over the socket: empty, but never null.
func listed[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// change makes a handler of a change, which is made whole or not at all.
func change[Request any](h *handlers, do func(ctx context.Context, r *Request) *Fault) handler {
	return func(_ http.ResponseWriter, r *http.Request) (any, *Fault) {
		ctx, cancel := context.WithTimeout(r.Context(), changePatience)
		defer cancel()
		var request Request
		fault := decode(r.Body, &request)
		if fault == nil {
			fault = h.inTurn(ctx, func() *Fault { return do(ctx, &request) })
		}
		return answered(Done{}, fault)
	}
}

// inTurn calls do when no other change is under way.
func (h *handlers) inTurn(ctx context.Context, do func() *Fault) (fault *Fault) {
	if err := h.Backend.InTurn(ctx, func() { fault = do() }); err != nil {
		return Fault{
			Code: CodeBusy, Errno: -int(syscall.EBUSY),
			Text: "another change is under way", Remedy: "try again later",
		}.Because(err)
	}
	return fault
}

// query are the parameters of a question.
type query map[string]string

// readQuery reads the parameters that a question may have.
func readQuery(raw string, known []string) (query, *Fault) {
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
func (q query) nid(name string) (lnet.NID, *Fault) {
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
func (q query) net() (lnet.Net, *Fault) {
	text, ok := q["net"]
	if !ok {
		return 0, nil
	}
	net, err := lnet.ParseNet(text)
	if err != nil {
		return net, Fault{
			Code: CodeNetUnknown, Errno: -2, Text: "cannot parse net",
			Remedy: "name a net such as tcp, tcp1 or o2ib",
		}.Because(err)
	}
	return net, nil
}

// number reads a parameter that is a number.
func (q query) number(name string) (n uint32, given bool, _ *Fault) {
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
func decode(r io.Reader, into any) *Fault {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = fmt.Errorf("more follows after byte %d", d.InputOffset())
		}
	}
	if err != nil {
		return invalidRequest("request body cannot be read", err)
	}
	return nil
}

func invalidRequest(text string, err error) *Fault {
	return Fault{Code: CodeRequestInvalid, Errno: -int(syscall.EINVAL), Text: text}.Because(err)
}

func (s *Server) reply(w http.ResponseWriter, r *http.Request, status int, body any) {
	b, err := json.Marshal(body)
	if err != nil {
		s.logger().Error("encode a control reply", "err", err)
		http.Error(w, "", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	p := pages{w: w, conn: connectionOf(r)}
	if err := p.write(append(b, '\n')); err != nil {
		s.logger().Debug("control client went away", "err", err)
	}
}

// Refusal is the body of every reply that is not 200.
type Refusal struct {
	Error *Fault `json:"error"`
}

func (s *Server) refuse(w http.ResponseWriter, r *http.Request, f *Fault) {
	status, ok := statusOf[f.Code]
	if !ok {
		status = http.StatusConflict
	}
	s.reply(w, r, status, Refusal{Error: f})
}

// statusOf are the statuses of the faults that are not conflicts with what is.
var statusOf = map[Code]int{
	CodeRequestInvalid:   http.StatusBadRequest,
	CodeNetUnknown:       http.StatusBadRequest,
	CodeParameterInvalid: http.StatusBadRequest,
	CodeRuleInvalid:      http.StatusBadRequest,
	CodeNIUnknown:        http.StatusNotFound,
	CodeNetAbsent:        http.StatusNotFound,
	CodePeerUnknown:      http.StatusNotFound,
	CodeRouteUnknown:     http.StatusNotFound,
	CodeRuleUnknown:      http.StatusNotFound,
	CodeLstKey:           http.StatusForbidden,
	CodeLstNoSession:     http.StatusNotFound,
	CodeLstUnknown:       http.StatusNotFound,
	CodeLstInvalid:       http.StatusBadRequest,
	CodeInternal:         http.StatusInternalServerError,
	CodeBusy:             http.StatusServiceUnavailable,
	CodeStopping:         http.StatusServiceUnavailable,
}
