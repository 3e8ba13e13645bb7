package server

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

func (h *handlers) events(_ context.Context, _ int, q query) (Stream, *api.Fault) {
	var f api.EventFilter
	var fault *api.Fault
	if f.Follow, fault = q.boolean("follow"); fault != nil {
		return nil, fault
	}
	if text, ok := q["since"]; ok {
		var err error
		if f.Since, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return nil, invalidRequest("since is not a time in the format of RFC 3339: "+strconv.Quote(text), nil)
		}
	}
	if text, ok := q["kind"]; ok {
		f.Kinds = strings.Split(text, ",")
		slices.Sort(f.Kinds)
		f.Kinds = slices.Compact(f.Kinds)
	}
	for _, kind := range f.Kinds {
		if !slices.Contains(api.EventKinds(), kind) {
			return nil, api.Fault{
				Code: api.CodeParameterInvalid, Errno: -int(syscall.EINVAL), Text: strconv.Quote(kind) + " is not a kind of event",
				Remedy: "the kinds are " + strings.Join(api.EventKinds(), ", "),
			}.Because(nil)
		}
	}
	return h.Backend.Events(f), nil
}

// boolean returns a parameter that is true or false, and false if it is missing.
func (q query) boolean(name string) (bool, *api.Fault) {
	switch text := q[name]; text {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, invalidRequest(name+" is neither true nor false: "+strconv.Quote(text), nil)
	}
}
