package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/control/api"
	"github.com/lnetd/lnetd/internal/control/client"
	"github.com/lnetd/lnetd/lnet"
)

// healthOptions say whose health to set, and to what: those of "net set" and
// "peer set".
type healthOptions struct {
	nid    string
	all    bool
	health string
}

func (o *healthOptions) add(c *cobra.Command, whose string) {
	f := c.Flags()
	f.StringVarP(&o.nid, "nid", "n", "", "`NID` of the "+whose)
	f.BoolVarP(&o.all, "all", "a", false, "every "+whose+" instead")
	f.StringVarP(&o.health, "health", "t", "", "health `VALUE`, 0 to 1000, which is the best")
}

// set sets the health. Without one there is nothing to do, as with one that is
// no number.
func (p *program) setHealth(
	ctx context.Context, form errorForm, o healthOptions,
	set func(c *client.Client, ctx context.Context, r api.HealthChange) error,
) error {
	r := api.HealthChange{All: o.all}
	if o.all == (o.nid != "") {
		return p.invalid(form, -22, "either --nid or --all is needed", "name one NID, or all")
	}
	if o.nid != "" {
		nid, err := lnet.ParseNID(o.nid)
		if err != nil {
			return p.invalid(form, -22, fmt.Sprintf("cannot parse NID '%s'", o.nid), err.Error())
		}
		r.NID = nid
	}
	value, ok := parseNumber(o.health)
	if !ok {
		p.hint("nothing to set: --health VALUE is a number from 0 to 1000")
		return nil
	}
	r.Value = new(int(min(max(value, 0), 1000)))
	return p.tell(form, func(c *client.Client) error { return set(c, ctx, r) })
}
