package server

import (
	"context"
	"errors"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selection"
)

// trafficPortal is the portal that explain assumes if the request gives none. It stands for all portals
// except 0: messages to portal 0, which are pings and pushes, may take another path.
const trafficPortal = 1

func (h *handlers) explain(_ context.Context, q query) (api.Explanation, *api.Fault) {
	to, fault := q.nid("nid")
	if fault != nil {
		return api.Explanation{}, fault
	}
	if to.IsZero() || to.IsAny() {
		return api.Explanation{}, invalidRequest("a NID is needed", nil)
	}
	source, fault := q.nid("source")
	if fault != nil {
		return api.Explanation{}, fault
	}
	portal, given, fault := q.number("portal")
	switch {
	case fault != nil:
		return api.Explanation{}, fault
	case !given:
		portal = trafficPortal
	case portal >= lnet.Portals:
		return api.Explanation{}, invalidRequest("portal is not within 0 to 63", nil)
	}
	e := h.Backend.Explain(to, source, portal)
	return explained(to, source, &e), nil
}

// explained converts an explanation of package selection to the form of the control interface.
func explained(to, source lnet.NID, e *selection.Explanation) api.Explanation {
	out := api.Explanation{To: to, Source: source, Case: e.Case, Steps: []api.ExplainedStep{}}
	for _, s := range e.Steps {
		step := api.ExplainedStep{What: s.What}
		for _, c := range s.Candidates {
			ranked := api.RankedCandidate{Name: c.Name, By: c.By.String(), Figures: []api.Figure{}}
			for _, f := range c.Figures {
				ranked.Figures = append(ranked.Figures, api.Figure{Criterion: f.Criterion.String(), Value: f.Value, Text: f.String()})
			}
			step.Candidates = append(step.Candidates, ranked)
		}
		for _, x := range s.Excluded {
			step.Excluded = append(step.Excluded, api.ExcludedCandidate(x))
		}
		out.Steps = append(out.Steps, step)
	}
	if e.Err != nil {
		out.Error = e.Err.Error()
		if u, ok := errors.AsType[*UnreachableError](e.Err); ok {
			out.Remedy = u.Remedy
		}
		return out
	}
	out.Path = pathOf(&e.Decision)
	return out
}

func pathOf(d *selection.Decision) *api.Path {
	p := &api.Path{From: lnet.LoopbackNID, To: lnet.LoopbackNID}
	if d.Loopback() {
		return p
	}
	p.From, p.To = d.NI.NID, d.Final.NID
	if d.Routed() {
		p.Gateway = d.Next.NID
	}
	return p
}
