package server

import (
	"net/http"
	"net/http/pprof"
	"os"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/internal/control/api"
)

// net/http/pprof puts its handlers on http.DefaultServeMux when it is linked. They
// are for the control socket alone: whoever serves the default multiplexer, now or
// by mistake, does not serve them.
func init() { //nolint:gochecknoinits // takes back what another package's init has done
	http.DefaultServeMux = http.NewServeMux()
}

// profiles are the requests for profiles of the daemon (net/http/pprof).
func (h *handlers) profiles() map[string]handler {
	return map[string]handler{
		"GET /debug/pprof/":        h.profile(pprof.Index),
		"GET /debug/pprof/cmdline": h.profile(pprof.Cmdline),
		"GET /debug/pprof/profile": h.profile(pprof.Profile),
		"GET /debug/pprof/symbol":  h.profile(pprof.Symbol),
		"GET /debug/pprof/trace":   h.profile(pprof.Trace),
	}
}

// profile makes a handler of one of pprof's. Profiles show memory and cost time, so
// that writing to the socket is not enough: they are for root and the daemon's user.
// They take as long as they are asked to, or until the client goes away.
func (h *handlers) profile(do http.HandlerFunc) handler {
	return func(w http.ResponseWriter, r *http.Request) (any, *api.Fault) {
		if user := connectionOf(r).owner(); !mayProfile(user) {
			return nil, &api.Fault{
				Code: api.CodeForbidden, Errno: -int(syscall.EPERM), Text: "profiles are for root and lnetd's own user",
				Remedy: "ask as one of them",
			}
		}
		h.allow(w, time.Time{})
		do(w, r)
		return nil, nil
	}
}

// mayProfile tells whether a client's user gets profiles.
func mayProfile(uid int) bool { return uid == 0 || uid == os.Geteuid() }
