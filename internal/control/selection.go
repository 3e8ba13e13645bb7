package control

import (
	"context"
	"fmt"
	"syscall"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selection"
)

// Selection is the reply to GET /v1/selection: the rules of the typed table by
// ID (selection 7).
type Selection struct {
	Rules []SelectionRule `json:"rules"`
}

// SelectionRule is a typed rule: the body of POST /v1/selection, and of DELETE
// /v1/selection, where the ID, the patterns or both name the rule.
type SelectionRule struct {
	// ID is the rule's for good. To add one, nil leaves it open.
	ID *int `json:"id,omitempty"`
	// Type is "net", "nid" or "peer".
	Type string `json:"type"`
	// Net is the pattern of a net rule, NID that of a nid rule, Local and
	// Remote are those of a peer rule.
	Net    lnet.Pattern `json:"net,omitzero"`
	NID    lnet.Pattern `json:"nid,omitzero"`
	Local  lnet.Pattern `json:"local,omitzero"`
	Remote lnet.Pattern `json:"remote,omitzero"`
	// Priority is 0 for the best.
	Priority uint32 `json:"priority"`
}

// Selection asks for the typed rules: of a type unless that is empty, and with
// an ID unless that is empty.
func (c *Client) Selection(ctx context.Context, kind, id string) ([]SelectionRule, error) {
	var s Selection
	err := c.get(ctx, "/v1/selection", parameters{"type": kind, "id": id}, &s)
	return s.Rules, err
}

// AddSelection adds a typed rule.
func (c *Client) AddSelection(ctx context.Context, r SelectionRule) error {
	return c.post(ctx, "/v1/selection", r)
}

// DeleteSelection deletes a typed rule.
func (c *Client) DeleteSelection(ctx context.Context, r SelectionRule) error {
	return c.remove(ctx, "/v1/selection", r)
}

func (h *handlers) selection(_ context.Context, q query) (list[SelectionRule], *Fault) {
	kind, byType := q["type"]
	if _, ok := ruleType(kind); byType && !ok {
		return list[SelectionRule]{}, unknownRuleType(kind)
	}
	id, byID, fault := q.number("id")
	if fault != nil {
		return list[SelectionRule]{}, fault
	}
	return listOf("rules", h.Backend.TypedRules(), func(_ int, t *selection.TypedRule) (SelectionRule, bool) {
		r := SelectionRule{ID: &t.ID, Type: t.Type.String(), Local: t.Local, Remote: t.Remote, Priority: t.Priority}
		switch t.Type {
		case selection.RuleNet:
			r.Net = t.Pattern
		case selection.RuleNID:
			r.NID = t.Pattern
		}
		return r, (!byType || r.Type == kind) && (!byID || t.ID == int(id))
	}), nil
}

func (h *handlers) addSelection(ctx context.Context, r *SelectionRule) *Fault {
	rule, fault := typedRule(r)
	if fault != nil {
		return fault
	}
	err := h.Backend.ChangePolicies(ctx, func(p *selection.Policies) error {
		_, err := p.AddTyped(rule)
		return err
	})
	if err != nil {
		return worded("cannot add selection rule", CodeRuleInvalid, err, wording{
			err: selection.ErrExists, code: CodeRuleExists, remedy: "delete the other one first; see the rules with: lnetdctl selection " + r.Type + " show",
		}, wording{
			err: selection.ErrInvalid, code: CodeRuleInvalid, remedy: "a net rule has a net, a nid rule NIDs with a net, a peer rule both local and remote",
		})
	}
	return nil
}

func (h *handlers) deleteSelection(ctx context.Context, r *SelectionRule) *Fault {
	rule, fault := typedRule(r)
	if fault != nil {
		return fault
	}
	err := h.Backend.ChangePolicies(ctx, func(p *selection.Policies) error { return p.DeleteTyped(rule) })
	if err != nil {
		return worded("cannot del selection rule", CodeRuleInvalid, err, wording{
			err: selection.ErrNotFound, code: CodeRuleUnknown, remedy: "see the rules with: lnetdctl selection " + r.Type + " show; if id and pattern are given, both must be the rule's",
		}, wording{
			err: selection.ErrInvalid, code: CodeRuleInvalid, remedy: "name the rule by its id or its pattern",
		})
	}
	return nil
}

// typedRule is the rule as package selection has it.
func typedRule(r *SelectionRule) (selection.TypedRule, *Fault) {
	t, ok := ruleType(r.Type)
	if !ok {
		return selection.TypedRule{}, unknownRuleType(r.Type)
	}
	rule := selection.TypedRule{ID: selection.AnyID, Type: t, Local: r.Local, Remote: r.Remote, Priority: r.Priority}
	if r.ID != nil {
		if *r.ID < 0 {
			return rule, invalidRequest("an id is not negative", fmt.Errorf("id %d", *r.ID))
		}
		rule.ID = *r.ID
	}
	other := &r.NID
	rule.Pattern = r.Net
	if t == selection.RuleNID {
		rule.Pattern, other = r.NID, &r.Net
	}
	if !other.IsZero() {
		return rule, invalidRequest("a "+r.Type+" rule has no such pattern: "+other.String(), nil)
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

func unknownRuleType(name string) *Fault {
	return &Fault{
		Code: CodeRequestInvalid, Errno: -int(syscall.EINVAL),
		Text: fmt.Sprintf("type %q of a selection rule is not net, nid or peer", name),
	}
}
