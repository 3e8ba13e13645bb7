package server

import (
	"context"
	"fmt"
	"syscall"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/selection"
)

func (h *handlers) selection(_ context.Context, q query) (list[api.Selection, api.SelectionRule], *api.Fault) {
	kind, byType := q["type"]
	if _, ok := ruleType(kind); byType && !ok {
		return list[api.Selection, api.SelectionRule]{}, unknownRuleType(kind)
	}
	id, byID, fault := q.number("id")
	if fault != nil {
		return list[api.Selection, api.SelectionRule]{}, fault
	}
	return listOf[api.Selection](h.Backend.TypedRules(), func(_ int, t *selection.TypedRule) (api.SelectionRule, bool) {
		r := shownTypedRule(t)
		return r, (!byType || r.Type == kind) && (!byID || t.ID == int(id))
	}), nil
}

func shownTypedRule(t *selection.TypedRule) api.SelectionRule {
	r := api.SelectionRule{ID: &t.ID, Type: t.Type.String(), Local: t.Local, Remote: t.Remote, Priority: t.Priority}
	switch t.Type {
	case selection.RuleNet:
		r.Net = t.Pattern
	case selection.RuleNID:
		r.NID = t.Pattern
	}
	return r
}

// ShownTypedRules converts "selection" rules to the form of the control interface.
func ShownTypedRules(rules []selection.TypedRule) []api.SelectionRule {
	shown := []api.SelectionRule{}
	for k := range rules {
		shown = append(shown, shownTypedRule(&rules[k]))
	}
	return shown
}

func (h *handlers) addSelection(ctx context.Context, r *api.SelectionRule) *api.Fault {
	rule, fault := typedRule(r)
	if fault != nil {
		return fault
	}
	err := h.Backend.ChangePolicies(ctx, func(p *selection.Policies) error {
		_, err := p.AddTyped(rule)
		return err
	})
	if err != nil {
		return describedError("cannot add selection rule", api.CodeRuleInvalid, err, wording{
			err: selection.ErrExists, code: api.CodeRuleExists, remedy: "delete the other rule first; to list the rules, use: lnetdctl selection " + r.Type + " show",
		}, wording{
			err: selection.ErrInvalid, code: api.CodeRuleInvalid, remedy: "a net rule needs a net, a nid rule NIDs with a net, a peer rule both local and remote",
		})
	}
	return nil
}

func (h *handlers) deleteSelection(ctx context.Context, r *api.SelectionRule) *api.Fault {
	rule, fault := typedRule(r)
	if fault != nil {
		return fault
	}
	err := h.Backend.ChangePolicies(ctx, func(p *selection.Policies) error { return p.DeleteTyped(rule) })
	if err != nil {
		return describedError("cannot del selection rule", api.CodeRuleInvalid, err, wording{
			err: selection.ErrNotFound, code: api.CodeRuleUnknown, remedy: "to list the rules, use: lnetdctl selection " + r.Type + " show; if both id and pattern are given, both must match the rule",
		}, wording{
			err: selection.ErrInvalid, code: api.CodeRuleInvalid, remedy: "give the id or the pattern of the rule",
		})
	}
	return nil
}

// typedRule converts a "selection" rule of a request to the type of package selection. It returns a fault if
// the rule is invalid.
func typedRule(r *api.SelectionRule) (selection.TypedRule, *api.Fault) {
	t, ok := ruleType(r.Type)
	if !ok {
		return selection.TypedRule{}, unknownRuleType(r.Type)
	}
	rule := selection.TypedRule{ID: selection.AnyID, Type: t, Local: r.Local, Remote: r.Remote, Priority: r.Priority}
	if err := api.PriorityRange.Check(int64(r.Priority)); err != nil {
		return rule, invalidRequest("the priority is invalid", fmt.Errorf("priority %w", err))
	}
	if r.ID != nil {
		if err := api.RuleIDRange.Check(int64(*r.ID)); err != nil {
			return rule, invalidRequest("the id is invalid", fmt.Errorf("id %w", err))
		}
		rule.ID = *r.ID
	}
	other := &r.NID
	rule.Pattern = r.Net
	if t == selection.RuleNID {
		rule.Pattern, other = r.NID, &r.Net
	}
	if !other.IsZero() {
		return rule, invalidRequest("a "+r.Type+" rule cannot have this pattern: "+other.String(), nil)
	}
	return rule, nil
}

func ruleType(name string) (selection.RuleType, bool) {
	for _, t := range []selection.RuleType{selection.RuleNet, selection.RuleNID, selection.RulePeer} {
		if t.String() == name {
			return t, true
		}
	}
	return 0, false
}

func unknownRuleType(name string) *api.Fault {
	return &api.Fault{
		Code: api.CodeRequestInvalid, Errno: -int(syscall.EINVAL),
		Text: fmt.Sprintf("type %q of a selection rule is not net, nid or peer", name),
	}
}
