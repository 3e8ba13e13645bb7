package server

import (
	"context"
	"fmt"
	"math"
	"strings"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node/fault"
)

// faultPortalMax is the highest portal that a rule can name.
const faultPortalMax = lnet.Portals - 1

func (h *handlers) faults(_ context.Context, q query) (list[api.FaultRules, api.FaultRule], *api.Fault) {
	kind, f := faultKind(q["kind"])
	if f != nil {
		return list[api.FaultRules, api.FaultRule]{}, f
	}
	return listOf[api.FaultRules](h.Backend.Faults(kind), func(_ int, s *fault.Status) (api.FaultRule, bool) {
		return shownFault(s), true
	}), nil
}

func (h *handlers) addFault(_ context.Context, r *api.FaultRule) *api.Fault {
	rule, f := parseFault(r)
	if f != nil {
		f.Text = "failed to add " + r.Kind + " rule: " + f.Text
		return f
	}
	if err := h.Backend.AddFault(rule); err != nil {
		return describedError("failed to add "+r.Kind+" rule", api.CodeRuleInvalid, err)
	}
	return nil
}

func (h *handlers) deleteFaults(_ context.Context, r *api.FaultDeletion) *api.Fault {
	kind, f := faultKind(r.Kind)
	if f != nil {
		return f
	}
	if r.All == (r.Source != "" || r.Dest != "") || !r.All && (r.Source == "" || r.Dest == "") {
		return invalidRequest("source and dest are needed together, or all alone", nil)
	}
	var source, dest fault.NIDFilter
	if !r.All {
		if source, f = faultFilter("source", r.Source); f != nil {
			return f
		}
		if dest, f = faultFilter("dest", r.Dest); f != nil {
			return f
		}
	}
	if h.Backend.RemoveFaults(kind, source, dest) == 0 {
		return &api.Fault{
			Code: api.CodeRuleUnknown, Errno: -int(syscall.ENOENT),
			Text:   "failed to delete " + r.Kind + " rule: " + api.Strerror(syscall.ENOENT),
			Remedy: "to list the rules, use: lnetdctl fault " + r.Kind + " show",
		}
	}
	return nil
}

func (h *handlers) resetFaults(context.Context, *api.Done) *api.Fault {
	h.Backend.ResetFaults()
	return nil
}

func faultKind(name string) (fault.Kind, *api.Fault) {
	for _, k := range []fault.Kind{fault.Drop, fault.Delay} {
		if k.String() == name {
			return k, nil
		}
	}
	return 0, invalidRequest(fmt.Sprintf("kind %q of a fault rule is neither drop nor delay", name), nil)
}

func faultFilter(field, text string) (fault.NIDFilter, *api.Fault) {
	f, err := fault.ParseNIDFilter(text)
	if err != nil {
		return f, api.Fault{
			Code: api.CodeRuleInvalid, Errno: -int(syscall.EINVAL),
			Text: "cannot parse " + field + " '" + text + "'", Remedy: "give a NID, *@NET, or * for all",
		}.Because(err)
	}
	return f, nil
}

// parseFault converts a fault rule of a request to the type of package fault. It returns a fault if the
// rule is invalid.
func parseFault(r *api.FaultRule) (rule fault.Rule, f *api.Fault) {
	if rule.Kind, f = faultKind(r.Kind); f != nil {
		return rule, f
	}
	if r.Source == "" || r.Dest == "" {
		return rule, invalidRequest("source and dest are needed", nil)
	}
	if rule.Source, f = faultFilter("source", r.Source); f != nil {
		return rule, f
	}
	if rule.Dest, f = faultFilter("dest", r.Dest); f != nil {
		return rule, f
	}
	if r.Local != "" {
		if rule.Local, f = faultFilter("local", r.Local); f != nil {
			return rule, f
		}
	}
	for _, p := range r.Portals {
		if p < 0 || p > faultPortalMax {
			return rule, invalidRequest(fmt.Sprintf("portal %d is not within 0 to %d", p, faultPortalMax), nil)
		}
		rule.Portals |= 1 << p
	}
	for _, name := range r.Messages {
		m, err := fault.ParseMessage(name)
		if err != nil {
			return rule, invalidRequest("cannot parse message type '"+name+"'", err)
		}
		rule.Messages |= m
	}
	for _, name := range r.Statuses {
		s, err := fault.ParseStatus(name)
		if err != nil {
			return rule, invalidRequest("cannot parse health error '"+name+"'", err)
		}
		rule.Statuses |= s
	}
	rule.Rate, rule.Random, rule.DropAll = r.Rate, r.Random, r.DropAll
	for _, t := range []struct {
		name    string
		seconds int
		to      *time.Duration
	}{{"interval", r.Interval, &rule.Interval}, {"latency", r.Latency, &rule.Latency}} {
		if t.seconds < 0 || t.seconds > math.MaxInt32 {
			return rule, invalidRequest(fmt.Sprintf("%s %d is out of range", t.name, t.seconds), nil)
		}
		*t.to = time.Duration(t.seconds) * time.Second
	}
	return rule, nil
}

// shownFault converts a fault rule and its counters to the form of the control interface.
func shownFault(s *fault.Status) api.FaultRule {
	r := api.FaultRule{
		Kind: s.Kind.String(), Source: s.Source.String(), Dest: s.Dest.String(),
		Rate: s.Rate, Interval: int(s.Interval / time.Second), Latency: int(s.Latency / time.Second),
		Random: s.Random, DropAll: s.DropAll,
		Counts: (*api.FaultCounts)(&s.Counts),
	}
	if !s.Local.IsAny() {
		r.Local = s.Local.String()
	}
	for p := range faultPortalMax + 1 {
		if s.Portals&(1<<p) != 0 {
			r.Portals = append(r.Portals, p)
		}
	}
	for t := lnet.MsgAck; t <= lnet.MsgReply; t++ {
		if s.Messages&(1<<t) != 0 {
			r.Messages = append(r.Messages, strings.ToLower(t.String()))
		}
	}
	r.Statuses = statusNames(s.Statuses)
	return r
}

func statusNames(m fault.StatusMask) []string {
	if m == fault.RandomStatus {
		return []string{"random"}
	}
	var names []string
	for s := lnd.StatusLocalInterrupt; s <= lnd.StatusNetworkTimeout; s++ {
		if m&fault.StatusOf(s) != 0 {
			names = append(names, strings.ReplaceAll(s.String(), " ", "_"))
		}
	}
	return names
}
