package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
	"github.com/lnetd/lnetd/lnet"
)

// healthOptions holds the options of "net set" and "peer set" that set the health.
type healthOptions struct {
	nid    string
	all    bool
	health string
}

func (o *healthOptions) add(c *cobra.Command, whose string) {
	f := c.Flags()
	f.StringVarP(&o.nid, "nid", "n", "", "`NID` of the "+whose)
	f.BoolVarP(&o.all, "all", "a", false, "every "+whose+" instead")
	f.StringVarP(&o.health, "health", "t", "", "health `VALUE`, 0 to 1000; 1000 is the best")
}

// setHealth calls set to set the health that the options request. It does nothing if the value is missing or
// not a number. If it returns an error, it has printed it.
func (p *program) setHealth(
	ctx context.Context, form errorForm, o healthOptions,
	set func(c *client.Client, ctx context.Context, r api.HealthChange) error,
) error {
	nid, err := p.whose(form, o)
	if err != nil {
		return err
	}
	given, ok := parseNumber(o.health)
	if !ok {
		p.warn(fmt.Sprintf("--health must be a number from 0 to %d; nothing is changed", api.MaxHealth))
		return nil
	}
	value := int(min(max(given, 0), api.MaxHealth))
	if int64(value) != given {
		p.warn(fmt.Sprintf("--health %d is set to %d: health must be within 0 to %d", given, value, api.MaxHealth))
	}
	r := api.HealthChange{NID: nid, All: o.all, Value: &value}
	return p.tell(form, func(c *client.Client) error { return set(c, ctx, r) })
}

// whose returns the NID whose health the options set, or the zero NID for all NIDs. If it returns an error, it
// has printed it.
func (p *program) whose(form errorForm, o healthOptions) (nid lnet.NID, err error) {
	if o.all == (o.nid != "") {
		return nid, p.invalid(form, -22, "either --nid or --all is needed", "use --nid for one NID, or --all for all of them")
	}
	if o.all {
		return nid, nil
	}
	return p.readNID(form, o.nid)
}
