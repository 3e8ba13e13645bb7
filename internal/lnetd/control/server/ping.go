package server

import (
	"context"
	"net/http"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
)

func (h *handlers) ping(w http.ResponseWriter, r *http.Request, req *api.PingRequest) (api.PingReply, *api.Fault) {
	targets, source, fault := parsePing(req)
	if fault != nil {
		return api.PingReply{}, fault
	}
	return h.each(w, r, req.NIDs, api.PingsAtOnce, req.Patience(), func(ctx context.Context, i int) (api.PingResult, error) {
		return h.Backend.Ping(ctx, targets[i], source)
	}, func(target string, err error) *api.Fault {
		return targetFault(api.CodePingFailed, "ping", target, err)
	}), nil
}

// parsePing returns the targets and the source NID of a request to ping, or a fault if they are invalid.
func parsePing(r *api.PingRequest) (targets []lnet.ProcessID, source lnet.NID, _ *api.Fault) {
	if fault := checkTargets(r.NIDs); fault != nil {
		return nil, source, fault
	}
	for _, s := range r.NIDs {
		id, err := lnet.ParseProcessID(s)
		if err != nil {
			return nil, source, invalidRequest("cannot parse NID '"+s+"'", err)
		}
		targets = append(targets, id)
	}
	if r.Source != "" {
		var err error
		if source, err = lnet.ParseNID(r.Source); err != nil {
			return nil, source, invalidRequest("cannot parse source NID '"+r.Source+"'", err)
		}
	}
	return targets, source, nil
}
