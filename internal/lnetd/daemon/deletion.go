package daemon

import (
	"context"
	"slices"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// planDeletion returns the effect on a node in state have of a document that lists what to delete.
// Unlike other documents, it may name discovered peers.
func (b *backend) planDeletion(ctx context.Context, have *config.State, doc *api.Document) (plan, error) {
	d, err := config.ParseDeletion(ctx, doc.Name, []byte(doc.Text), b.node.drivers.Options())
	if err != nil {
		return plan{}, err
	}
	d.NIs = config.ExpandDevices(d.NIs, config.DevicesOf(have.NIs))
	if err := b.chooseNIs(doc, &d); err != nil {
		return plan{}, err
	}
	d.NIs = b.node.engines.resolved(d.NIs, have.Drivers, have.Drivers)
	found, err := b.node.foundPeers(ctx, d.Peers)
	if err != nil {
		return plan{}, err
	}
	have.Peers = append(have.Peers, found...)
	want, more, err := config.Delete(have, &d)
	return plan{want: want, warnings: slices.Concat(d.Warnings, more)}, err
}

// chooseNIs adds to d the NIs that d's "ip2nets" rules select on this host. Rules that select no NI
// cause a warning, like any other item to delete that does not exist.
func (b *backend) chooseNIs(doc *api.Document, d *config.Deletion) error {
	if d.Site.Empty() {
		return nil
	}
	c := config.Config{Site: d.Site, Warnings: d.Warnings}
	s, err := b.node.resolvedState(&c)
	if fitsNothing(err) {
		d.Warnings = append(d.Warnings, config.ProblemAt(doc.Name, c.Site.Where, noRules+": "+causeOf(err)+"; nothing is deleted", ""))
		return nil
	}
	if err != nil {
		return placedFault(doc.Name, &c, err)
	}
	d.NIs = append(d.NIs, s.NIs...)
	return nil
}
