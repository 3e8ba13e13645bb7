package server

import (
	"context"
	"syscall"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/selection"
)

func (h *handlers) udsp(_ context.Context, q query) (list[api.UDSP, api.UDSPRule], *api.Fault) {
	index, one, fault := q.number("idx")
	if fault != nil {
		return list[api.UDSP, api.UDSPRule]{}, fault
	}
	return listOf[api.UDSP](h.Backend.Rules(), func(place int, r *selection.Rule) (api.UDSPRule, bool) {
		return shownRule(place, r), !one || place == int(index)
	}), nil
}

func shownRule(place int, r *selection.Rule) api.UDSPRule {
	rule := api.UDSPRule{Index: &place, Src: r.Src, Dst: r.Dst, Rte: r.Rte}
	if r.HasPriority() {
		rule.Priority = &r.Priority
	}
	return rule
}

// ShownRules converts "udsp" rules, ordered by index, to the form of the control interface.
func ShownRules(rules []selection.Rule) []api.UDSPRule {
	shown := []api.UDSPRule{}
	for k := range rules {
		shown = append(shown, shownRule(k, &rules[k]))
	}
	return shown
}

func (h *handlers) addUDSP(ctx context.Context, r *api.UDSPRule) *api.Fault {
	rule := selection.Rule{Src: r.Src, Dst: r.Dst, Rte: r.Rte}
	if fault := checkUDSP(r, &rule); fault != nil {
		return fault
	}
	place := selection.Append
	if r.Index != nil {
		place = *r.Index
	}
	err := h.Backend.ChangePolicies(ctx, func(p *selection.Policies) error { return p.Add(rule, place) })
	if err != nil {
		return describedError("cannot add udsp", api.CodeRuleInvalid, err, wording{
			err: selection.ErrExists, code: api.CodeRuleExists,
			remedy: "to list the rules, use: lnetdctl udsp show; to change a rule without a priority, delete it first",
		})
	}
	return nil
}

// checkUDSP checks the requested rule r and stores its priority in rule, which has its patterns already. It
// returns a fault if r is invalid.
func checkUDSP(r *api.UDSPRule, rule *selection.Rule) *api.Fault {
	invalid := func(text, remedy string) *api.Fault {
		return &api.Fault{Code: api.CodeRuleInvalid, Errno: -int(syscall.EINVAL), Text: text, Remedy: remedy}
	}
	src, dst, rte := !r.Src.IsZero(), !r.Dst.IsZero(), !r.Rte.IsZero()
	switch {
	case src && dst && rte:
		return invalid("The combination of src, dst and rte is not supported", "add one rule with dst and src, and another one with dst and rte")
	case src && rte:
		return invalid("src and rte cannot be combined", "routers are preferred for destinations: give dst and rte")
	case !src && !dst:
		return invalid("src or dst is needed", "give the nets or NIDs that the rule applies to")
	case r.Index != nil && *r.Index < 0:
		return invalid("Invalid index", "positions begin with 0")
	case r.Priority != nil && api.PriorityRange.Check(int64(*r.Priority)) != nil:
		return invalid("Invalid priority", "valid values: "+api.PriorityRange.String())
	case !rule.HasPriority() && r.Priority != nil:
		return invalid("a rule with preferred NIDs cannot have a priority", "remove the priority, or give only src or only dst")
	}
	if r.Priority != nil {
		rule.Priority = *r.Priority
	}
	return nil
}

func (h *handlers) deleteUDSP(ctx context.Context, r *api.UDSPDeletion) *api.Fault {
	if r.All == (r.Index != nil) {
		return invalidRequest("either idx or all is needed", nil)
	}
	err := h.Backend.ChangePolicies(ctx, func(p *selection.Policies) error {
		if r.All {
			p.DeleteAll()
			return nil
		}
		return p.Delete(*r.Index)
	})
	if err != nil {
		return describedError("cannot del udsp", api.CodeRuleInvalid, err, wording{
			err: selection.ErrNotFound, code: api.CodeRuleUnknown, remedy: "to list the rules and their positions, use: lnetdctl udsp show",
		})
	}
	return nil
}
