package control

import (
	"context"
	"syscall"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selection"
)

// UDSP is the reply to GET /v1/udsp: the user policies by place.
type UDSP struct {
	Rules []UDSPRule `json:"rules"`
}

// UDSPRule is a user policy, and the body of POST /v1/udsp (lnetctl 4.17).
type UDSPRule struct {
	// Index is the rule's place. To add one, nil is the end.
	Index *int         `json:"idx,omitempty"`
	Src   lnet.Pattern `json:"src,omitzero"`
	Dst   lnet.Pattern `json:"dst,omitzero"`
	Rte   lnet.Pattern `json:"rte,omitzero"`
	// Priority is that of a rule with src or dst alone, 0 if it is not given;
	// others have none.
	Priority *uint32 `json:"priority,omitempty"`
}

// UDSPDeletion is the body of DELETE /v1/udsp: one rule, or all.
type UDSPDeletion struct {
	Index *int `json:"idx,omitempty"`
	All   bool `json:"all,omitempty"`
}

// UDSP asks for the user policies, or, with a place, for that one if there is.
func (c *Client) UDSP(ctx context.Context, index string) ([]UDSPRule, error) {
	var u UDSP
	err := c.get(ctx, "/v1/udsp", parameters{"idx": index}, &u)
	return u.Rules, err
}

// AddUDSP adds a user policy.
func (c *Client) AddUDSP(ctx context.Context, r UDSPRule) error { return c.post(ctx, "/v1/udsp", r) }

// DeleteUDSP deletes user policies.
func (c *Client) DeleteUDSP(ctx context.Context, r UDSPDeletion) error {
	return c.remove(ctx, "/v1/udsp", r)
}

func (h *handlers) udsp(_ context.Context, q query) (list[UDSPRule], *Fault) {
	index, one, fault := q.number("idx")
	if fault != nil {
		return list[UDSPRule]{}, fault
	}
	return listOf("rules", h.Backend.Rules(), func(place int, r *selection.Rule) (UDSPRule, bool) {
		rule := UDSPRule{Index: &place, Src: r.Src, Dst: r.Dst, Rte: r.Rte}
		if r.HasPriority() {
			rule.Priority = &r.Priority
		}
		return rule, !one || place == int(index)
	}), nil
}

func (h *handlers) addUDSP(ctx context.Context, r *UDSPRule) *Fault {
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
		return worded("cannot add udsp", CodeRuleInvalid, err, wording{
			err: selection.ErrExists, code: CodeRuleExists,
			remedy: "see the rules with: lnetdctl udsp show; to change a rule that has no priority, delete it first",
		})
	}
	return nil
}

// checkUDSP completes the rule that is asked for, and says what makes no sense.
func checkUDSP(r *UDSPRule, rule *selection.Rule) *Fault {
	invalid := func(text, remedy string) *Fault {
		return &Fault{Code: CodeRuleInvalid, Errno: -int(syscall.EINVAL), Text: text, Remedy: remedy}
	}
	src, dst, rte := !r.Src.IsZero(), !r.Dst.IsZero(), !r.Rte.IsZero()
	switch {
	case src && dst && rte:
		return invalid("The combination of src, dst and rte is not supported", "make one rule of dst and src, and one of dst and rte")
	case src && rte:
		return invalid("src and rte cannot be combined", "a router is preferred for destinations: name dst and rte")
	case !src && !dst:
		return invalid("src or dst is needed", "name whom the rule is about")
	case r.Index != nil && *r.Index < 0:
		return invalid("Invalid index", "places begin with 0")
	case !rule.HasPriority() && r.Priority != nil:
		return invalid("a rule about preferred NIDs has no priority", "leave the priority away, or name src or dst alone")
	}
	if r.Priority != nil {
		rule.Priority = *r.Priority
	}
	return nil
}

func (h *handlers) deleteUDSP(ctx context.Context, r *UDSPDeletion) *Fault {
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
		return worded("cannot del udsp", CodeRuleInvalid, err, wording{
			err: selection.ErrNotFound, code: CodeRuleUnknown, remedy: "see the rules and their places with: lnetdctl udsp show",
		})
	}
	return nil
}
