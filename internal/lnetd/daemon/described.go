package daemon

import (
	"context"
	"slices"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/server"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selection"
)

// Described implements server.Backend. The document is parsed like one that lists what to delete, in
// which an entry needs no more than what identifies the item.
func (b *backend) Described(ctx context.Context, doc api.Document) (found api.Described, peers []lnet.NID, err error) {
	if busy := b.alone(ctx, &doc, func() { found, peers, err = b.described(ctx, &doc) }); busy != nil {
		return found, nil, busy
	}
	return found, peers, b.numbered(ctx, &doc, err)
}

func (b *backend) described(ctx context.Context, doc *api.Document) (found api.Described, peers []lnet.NID, _ error) {
	d, err := config.ParseDeletion(ctx, doc.Name, []byte(doc.Text), b.node.drivers.Options())
	if err != nil {
		return found, nil, problemsFault(doc.Name, err)
	}
	values := b.node.engines.options()
	d.NIs = config.ExpandDevices(d.NIs, config.DevicesOf(b.node.engines.configured()))
	if err := b.chooseNIs(doc, &d); err != nil {
		return found, nil, err
	}
	d.NIs = b.node.engines.resolved(d.NIs, values, values)
	for _, n := range b.Nets() {
		n.NIs = slices.DeleteFunc(n.NIs, func(i api.NI) bool { return !describes(&d, n.Net, &i) })
		if len(n.NIs) > 0 {
			found.Nets = append(found.Nets, n)
			setDetail(&found, n.Net.String(), &d, n.Net.String())
		}
	}
	found.Routes = b.describedRoutes(&d)
	peers = namedNIDs(d.Peers)
	for _, nid := range peers {
		if _, ok := d.Details[nid.String()]; !ok {
			continue
		}
		if p, ok := b.Peer(nid); ok {
			setDetail(&found, p.Primary.String(), &d, nid.String())
		}
	}
	setDetail(&found, "route", &d, "route")
	if d.Routing || d.Buffers {
		r := b.Routing()
		found.Routing = &r
	}
	if len(d.Globals) > 0 {
		g := b.Globals()
		found.Globals = &g
	}
	for _, r := range b.shownPolicies() {
		if slices.ContainsFunc(d.Rules, func(n config.Numbered) bool { return n.Number == *r.Index }) {
			found.UDSP = append(found.UDSP, r)
		}
	}
	named := slices.DeleteFunc(slices.Clone(b.TypedRules()), func(r selection.TypedRule) bool { return !d.NamesTypedRule(&r) })
	if len(named) > 0 {
		found.Selection = server.ShownTypedRules(named)
	}
	if len(d.Warnings) > 0 {
		found.Warnings = problemsOf(d.Warnings)
	}
	return found, peers, nil
}

// describedRoutes returns the routes that the document names.
func (b *backend) describedRoutes(d *config.Deletion) (found []api.Route) {
	type route struct {
		net     lnet.Net
		gateway lnet.NID
	}
	named := map[route]bool{}
	for _, r := range d.Routes {
		named[route{r.Net, r.Gateway}] = true
	}
	for _, r := range b.Routes() {
		if named[route{r.Net, r.Gateway}] {
			found = append(found, r)
		}
	}
	return found
}

// setDetail copies the level of detail that the document requests for an item from d to found. The
// document calls the item said; the item's own name is name.
func setDetail(found *api.Described, name string, d *config.Deletion, said string) {
	level, ok := d.Details[said]
	if !ok {
		return
	}
	if found.Details == nil {
		found.Details = map[string]int64{}
	}
	found.Details[name] = level
}

// describes reports whether d names the NI i, which is up, or its whole net n.
func describes(d *config.Deletion, n lnet.Net, i *api.NI) bool {
	return slices.ContainsFunc(d.Nets, func(o config.NamedNet) bool { return o.Net == n }) || slices.ContainsFunc(d.NIs, func(o config.NI) bool {
		return o.Net == n && (o.Device != "" && slices.Contains(i.Interfaces, o.Device) || o.NID == i.NID)
	})
}

func (b *backend) Errands(ctx context.Context, doc api.Document) (errands []api.Errand, err error) {
	if busy := b.alone(ctx, &doc, func() { errands, err = b.errands(ctx, &doc) }); busy != nil {
		return nil, busy
	}
	return errands, b.numbered(ctx, &doc, err)
}

func (b *backend) errands(ctx context.Context, doc *api.Document) (errands []api.Errand, _ error) {
	list, err := config.ParseRequests(ctx, doc.Name, []byte(doc.Text))
	if err != nil {
		return nil, problemsFault(doc.Name, err)
	}
	for _, e := range list {
		errand := api.Errand{SeqNo: e.SeqNo}
		if e.Discover {
			errand.Discover = &api.DiscoverRequest{NIDs: e.NIDs}
		} else {
			errand.Ping = &api.PingRequest{NIDs: e.NIDs, Source: e.Source, Timeout: e.Timeout.Seconds()}
		}
		errands = append(errands, errand)
	}
	return errands, nil
}
