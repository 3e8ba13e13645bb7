package server

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"syscall"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

func (h *handlers) nets(_ context.Context, q query) (list[api.Nets, api.Net], *api.Fault) {
	want, fault := q.net()
	if fault != nil {
		return list[api.Nets, api.Net]{}, fault
	}
	nets := h.Backend.Nets()
	waiting := slices.DeleteFunc(h.Backend.Waiting(), func(w api.WaitingNI) bool { return want != 0 && w.Net != want })
	if want != 0 && len(waiting) == 0 && !slices.ContainsFunc(nets, func(n api.Net) bool { return n.Net == want }) {
		return list[api.Nets, api.Net]{}, &api.Fault{
			Code: api.CodeNetAbsent, Errno: -3, Text: "Network is down",
			Cause:  "the node has no NI on " + want.String(),
			Remedy: "to list its nets, use: lnetdctl net show",
		}
	}
	l := listOf[api.Nets](nets, func(_ int, n *api.Net) (api.Net, bool) { return *n, want == 0 || n.Net == want })
	if len(waiting) > 0 {
		b, err := json.Marshal(waiting)
		if err != nil {
			return l, describedError("cannot show the nets", api.CodeInternal, err)
		}
		l.rest = `,"waiting":` + string(b)
	}
	return l, nil
}

func (h *handlers) addNet(ctx context.Context, r *api.NetAddition) (done api.NetAdded, _ *api.Fault) {
	ways := 0
	for _, given := range []bool{len(r.Interfaces) > 0, !r.NID.IsZero(), r.IP2Nets != ""} {
		if given {
			ways++
		}
	}
	switch {
	case ways == 0 && (r.Proxy == "" || r.Net == 0):
		return done, netInvalid("interface / NID is missing", "give a net and an interface, or a NID")
	case ways > 1:
		return done, netInvalid("interfaces, a NID and ip2nets cannot be combined", "give only one of them")
	case len(r.Interfaces) > 0 && r.Net == 0:
		return done, netInvalid("cannot parse net", "give the net of the interfaces")
	case len(r.Interfaces) == 0 && r.Net != 0 && (ways > 0 || r.Proxy == ""):
		return done, netInvalid("a net is only valid with interfaces", "a NID and ip2nets already contain their nets")
	case isLo(r.Net) || r.NID.IsLoopback():
		return done, netInvalid("setting @lo not allowed", "0@lo always exists")
	}
	for _, v := range []struct {
		name  string
		value *int
		takes api.Range
	}{
		{"peer_timeout", r.PeerTimeout, api.PeerTimeoutRange}, {"peer_credits", r.PeerCredits, api.CreditsRange},
		{"peer_buffer_credits", r.PeerBufferCredits, api.CreditsRange}, {"credits", r.Credits, api.CreditsRange},
	} {
		if v.value == nil {
			continue
		}
		if err := v.takes.Check(int64(*v.value)); err != nil {
			return done, netInvalid(fmt.Sprintf("%s %v", v.name, err), "")
		}
	}
	var err error
	if done.Warnings, err = h.Backend.AddNet(ctx, *r); err != nil {
		return done, describedError("cannot add LNet NI", api.CodeNetRefused, err, niWords("cannot add LNet NI")...)
	}
	return done, nil
}

func isLo(n lnet.Net) bool { return n != 0 && n.Type() == lnet.TypeLO }

func netInvalid(text, remedy string) *api.Fault {
	return &api.Fault{Code: api.CodeRequestInvalid, Errno: -int(syscall.EINVAL), Text: text, Remedy: remedy}
}

// niWords returns lnetctl's messages for errors of requests that change NIs. The argument text is the message
// for an NI that exists although it must not, or does not exist although it must.
func niWords(text string) []wording {
	return []wording{
		{err: node.ErrExists, code: api.CodeNetRefused, text: text, remedy: "to list the NIs, use: lnetdctl net show"},
		{err: node.ErrTooMany, code: api.CodeNetRefused, text: "too many NIs, check lnet_interfaces_max", remedy: "to see max_interfaces, use: lnetdctl global show"},
		{err: node.ErrNotFound, code: api.CodeNIUnknown, text: text, remedy: "to list the NIs, use: lnetdctl net show"},
	}
}

func (h *handlers) deleteNet(ctx context.Context, r *api.NetDeletion) *api.Fault {
	switch {
	case (r.Net == 0) == r.NID.IsZero():
		return netInvalid("either a net or a NID is needed", "")
	case !r.NID.IsZero() && len(r.Interfaces) > 0:
		return netInvalid("interfaces need their net", "give the net, or only the NID")
	case isLo(r.Net) || r.NID.IsLoopback():
		return netInvalid("setting @lo not allowed", "0@lo cannot be deleted")
	}
	if err := h.Backend.DeleteNet(ctx, *r); err != nil {
		return describedError("cannot del LNet NI", api.CodeNetRefused, err, niWords("cannot del LNet NI")...)
	}
	return nil
}

var lndTimeoutRemedy = "valid values: " + api.LNDTimeoutRange.String() + " seconds; 0 means that it is computed from the parameters of the node"

func (h *handlers) setNITunables(ctx context.Context, r *api.NITunables) *api.Fault {
	switch {
	case len(r.LND) == 0 && r.LNDTimeout == nil:
		return netInvalid("nothing to set was given", "give a tunable of NIs, or lnd_timeout")
	case len(r.LND) > 0 && (r.All != r.NID.IsZero()) && r.Net == 0:
		return netInvalid("either a NID, a net or all is needed", "")
	case r.LNDTimeout != nil && r.Net == 0:
		return netInvalid("Specified --lnd-timeout without --net option", "give the net")
	case r.LNDTimeout != nil && *r.LNDTimeout < 0:
		return netInvalid(fmt.Sprintf("Invalid LND timeout value '%d', must be >= 0", *r.LNDTimeout), lndTimeoutRemedy)
	case r.LNDTimeout != nil && api.LNDTimeoutRange.Check(int64(*r.LNDTimeout)) != nil:
		return netInvalid(fmt.Sprintf("Invalid LND timeout value '%d', must be %s", *r.LNDTimeout, api.LNDTimeoutRange), lndTimeoutRemedy)
	}
	if err := h.Backend.SetNITunables(ctx, *r); err != nil {
		return describedError("cannot set tunables", api.CodeNetRefused, err, niWords("cannot find NI")...)
	}
	return nil
}
