package server

import (
	"net/http"
	"net/http/pprof"
	"os"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// Importing net/http/pprof registers its handlers on http.DefaultServeMux. They are meant only for
// the control socket. Replacing the default multiplexer keeps them from being served elsewhere by
// mistake.
func init() { //nolint:gochecknoinits // takes back what another package's init has done
	http.DefaultServeMux = http.NewServeMux()
}

// profiles returns the requests for profiles of the daemon (net/http/pprof).
func (h *handlers) profiles() map[string]handler {
	return map[string]handler{
		"GET /debug/pprof/":        h.profile(pprof.Index),
		"GET /debug/pprof/cmdline": h.profile(pprof.Cmdline),
		"GET /debug/pprof/profile": h.profile(pprof.Profile),
		"GET /debug/pprof/symbol":  h.profile(pprof.Symbol),
		"GET /debug/pprof/trace":   h.profile(pprof.Trace),
	}
}

// profile wraps a handler of pprof. Profiles expose memory and cost CPU time, so they are limited
// to root and the daemon's user. A profile takes as long as requested, or until the client
// disconnects.
func (h *handlers) profile(do http.HandlerFunc) handler {
	return func(w http.ResponseWriter, r *http.Request) (any, *api.Fault) {
		if user := connectionOf(r).owner(); !mayProfile(user) {
			return nil, &api.Fault{
				Code: api.CodeForbidden, Errno: -int(syscall.EPERM), Text: "only root and the user of lnetd may read profiles",
				Remedy: "run the request as one of them",
			}
		}
		h.allow(w, time.Time{})
		do(w, r)
		return nil, nil
	}
}

// mayProfile reports whether a client's user may read profiles.
func mayProfile(uid int) bool { return uid == 0 || uid == os.Geteuid() }
