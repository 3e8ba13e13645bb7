package server

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/endpoint"
	"github.com/lnetd/lnetd/lnet"
)

// documentBodyMax is the maximum size in bytes of a body with a document. It exceeds the maximum size of
// a document, because JSON needs two bytes for each newline.
const documentBodyMax = 2*api.DocumentMax + requestBodyMax

// configuration returns the configuration of the node. It runs within InTurn, so that it does not see a
// change that is only partly applied.
func (h *handlers) configuration(ctx context.Context, _ *endpoint.Query) (api.Configuration, *api.Fault) {
	c, err := h.Backend.Configuration(ctx)
	if err != nil {
		return c, describedError("cannot read the configuration", api.CodeInternal, err)
	}
	c.Peers = listed(c.Peers)
	return c, nil
}

// documentTurn returns the serializer for a request to change the configuration: a dry run need not wait
// for other changes.
func (h *handlers) documentTurn(r *api.ConfigurationChange) serializer {
	if r.Dry {
		return h.readOnlySlot
	}
	return h.serialized
}

// changeConfiguration changes the configuration according to a document, as a whole or not at all.
func (h *handlers) changeConfiguration(ctx context.Context, r *api.ConfigurationChange) (api.ConfigurationChanged, *api.Fault) {
	switch {
	case len(r.Text) > api.DocumentMax:
		return api.ConfigurationChanged{}, tooLong()
	case r.Mode != api.ModeAdd && r.Mode != api.ModeDelete && r.Mode != api.ModeReplace:
		return api.ConfigurationChanged{}, invalidRequest("mode is not add, delete or replace", nil)
	}
	done, err := h.Backend.ChangeConfiguration(ctx, *r)
	if err != nil {
		return done, describedError("the configuration cannot be changed", api.CodeConfigInvalid, err)
	}
	if r.Minimal {
		done.Before, done.After = api.Configuration{}, api.Configuration{}
	} else {
		done.Before.Peers, done.After.Peers = listed(done.Before.Peers), listed(done.After.Peers)
	}
	done.Commands, done.Warnings, done.Restart = listed(done.Commands), listed(done.Warnings), listed(done.Restart)
	return done, nil
}

func tooLong() *api.Fault {
	return &api.Fault{Code: api.CodeConfigInvalid, Errno: -27, Text: "the document is too long", Remedy: fmt.Sprintf("the limit is %d MiB: split it", api.DocumentMax>>20)}
}

// described returns the current state of the entries in a document. The reply is generated while it is sent,
// after ctx has ended, because it may be much longer than the document.
func (h *handlers) described(ctx context.Context, d *api.Document) (reply list[api.Described, api.Peer], _ *api.Fault) {
	if len(d.Text) > api.DocumentMax {
		return reply, tooLong()
	}
	found, nids, err := h.Backend.Described(ctx, *d)
	if err != nil {
		return reply, describedError("the document cannot be shown", api.CodeConfigInvalid, err)
	}
	head, err := json.Marshal(found)
	if err != nil {
		return reply, unanswered(err)
	}
	c := newCompact(api.PeersDetail)
	reply = list[api.Described, api.Peer]{
		streams: true, items: h.Backend.PeersOf(context.WithoutCancel(ctx), nids),
		encode: func(b []byte, p *api.Peer) ([]byte, error) { return c.append(b, p) },
		head:   strings.TrimPrefix(string(head[1:len(head)-1])+",", ","),
		held:   len(head) + len(nids)*int(reflect.TypeFor[lnet.NID]().Size()),
	}
	return reply, nil
}

func (h *handlers) errands(ctx context.Context, d *api.Document) (api.Errands, *api.Fault) {
	if len(d.Text) > api.DocumentMax {
		return api.Errands{}, tooLong()
	}
	list, err := h.Backend.Errands(ctx, *d)
	if err != nil {
		return api.Errands{}, describedError("the document cannot be executed", api.CodeConfigInvalid, err)
	}
	return api.Errands{Errands: listed(list)}, nil
}

func (h *handlers) setLNet(ctx context.Context, r *api.LNet) *api.Fault {
	if !r.Configured && (r.All || r.Large) {
		return invalidRequest("\"all\" and \"large\" are only valid for \"configure\"", nil)
	}
	if err := h.Backend.SetLNet(ctx, *r); err != nil {
		if r.Configured {
			return describedError("LNet configure error", api.CodeNetRefused, err)
		}
		return describedError("LNet unconfigure error", api.CodeLNetBusy, err)
	}
	return nil
}

func (h *handlers) recovery(context.Context, query) (api.Recovery, *api.Fault) {
	r := h.Backend.Recovery()
	r.Local, r.Peers = listed(r.Local), listed(r.Peers)
	return r, nil
}

func (h *handlers) numa(context.Context, query) (api.NUMA, *api.Fault) {
	return api.NUMA{Range: h.Backend.Globals().Values["numa_range"], CPTs: listed(h.Backend.CPTs())}, nil
}

func (h *handlers) cpts(_ context.Context, q query) (api.CPTs, *api.Fault) {
	list, err := lnet.ExpandNIDs(q["nids"], api.PeerNIDsMax)
	if err != nil {
		return api.CPTs{}, invalidRequest("cannot parse NIDs '"+q["nids"]+"'", err)
	}
	all := api.CPTs{CPTs: []api.CPTOfNID{}}
	for _, nid := range list {
		all.CPTs = append(all.CPTs, api.CPTOfNID{NID: nid, CPT: h.Backend.CPT(nid)})
	}
	return all, nil
}
