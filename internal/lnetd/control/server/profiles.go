package server

import (
	"net/http"
	"net/http/pprof"
	"os"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// init replaces http.DefaultServeMux, on which the import of net/http/pprof has registered its handlers.
// They are meant only for the control socket. A server of this process that uses the default multiplexer
// would serve them by mistake.
func init() { //nolint:gochecknoinits // takes back what another package's init has done
	http.DefaultServeMux = http.NewServeMux()
}

// profiles returns the handlers for profiles of the daemon (net/http/pprof), by URL pattern.
func (h *handlers) profiles() map[string]handler {
	return map[string]handler{
		"GET /debug/pprof/":        h.profile(pprof.Index),
		"GET /debug/pprof/cmdline": h.profile(pprof.Cmdline),
		"GET /debug/pprof/profile": h.profile(pprof.Profile),
		"GET /debug/pprof/symbol":  h.profile(pprof.Symbol),
		"GET /debug/pprof/trace":   h.profile(pprof.Trace),
	}
}

// profile returns a handler that calls do, a handler of pprof, if the client's user is root or the daemon's
// user. Other users may not read profiles, because these expose memory and cost CPU time. The request takes
// as long as the client has requested, or until the client disconnects.
func (h *handlers) profile(do http.HandlerFunc) handler {
	return func(w http.ResponseWriter, r *http.Request) (any, *api.Fault) {
		if user := connectionOf(r).owner(); !isAdministrator(user) {
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

// isAdministrator reports whether a client's user is root or the user of lnetd. Only these may make requests that show the
// memory of programs.
func isAdministrator(uid int) bool { return uid == 0 || uid == os.Geteuid() }
