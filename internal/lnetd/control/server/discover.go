package server

import (
	"context"
	"net/http"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
)

func (h *handlers) discover(w http.ResponseWriter, r *http.Request, req *api.DiscoverRequest) (api.PingReply, *api.Fault) {
	fault := checkTargets(req.NIDs)
	nids := make([]lnet.NID, len(req.NIDs))
	for i := 0; fault == nil && i < len(nids); i++ {
		var err error
		if nids[i], err = lnet.ParseNID(req.NIDs[i]); err != nil {
			fault = invalidRequest("cannot parse NID '"+req.NIDs[i]+"'", err)
		}
	}
	if fault != nil {
		return api.PingReply{}, fault
	}
	return h.each(w, r, req.NIDs, 1, api.PingTimeout, func(ctx context.Context, i int) (api.PingResult, error) {
		p, err := h.Backend.Discover(ctx, nids[i], req.Force)
		if err != nil {
			return api.PingResult{}, err
		}
		return discovered(&p), nil
	}, func(target string, err error) *api.Fault {
		return targetFault(api.CodeDiscoverFailed, "discover", target, err)
	}), nil
}

// discovered returns the result of discovering the peer p. It omits the NID 0@lo.
func discovered(p *api.Peer) api.PingResult {
	res := api.PingResult{Primary: p.Primary, MultiRail: p.MultiRail, PID: lnet.PIDLustre}
	for i := range p.NIs {
		if nid := p.NIs[i].NID; !nid.IsLoopback() {
			res.NIDs = append(res.NIDs, nid)
		}
	}
	return res
}
