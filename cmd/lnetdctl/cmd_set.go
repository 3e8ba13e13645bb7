package main

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/control/api"
	"github.com/lnetd/lnetd/internal/control/client"
)

// A settable is a parameter of "set".
type settable struct {
	name  string
	about string
	// noEffect explains that setting the value has no effect. It is empty if it has one.
	noEffect string
	// set requests the change to a numeric value.
	set func(ctx context.Context, c *client.Client, value int64) error
	// words maps values that are not numbers to changes.
	words map[string]api.GlobalsChange
}

// discoveryWords returns the modes of discovery by name (lnetctl 11).
func discoveryWords() map[string]api.GlobalsChange {
	off, on, verify, discover := int64(0), int64(1), true, false
	return map[string]api.GlobalsChange{
		"on": {Discovery: &on, Verify: &discover}, "off": {Discovery: &off}, "verify": {Discovery: &on, Verify: &verify},
	}
}

// aboutGlobals describes the parameters (lnetctl 6).
var aboutGlobals = map[string]string{
	"numa_range":                 "NUMA distance up to which NIs count as equally near",
	"max_interfaces":             "most NIDs that a node may tell of itself, 16 or more",
	"discovery":                  "off or 0, on, or verify: compare only; 1: on unless it is verify",
	"drop_asym_route":            "1: drop messages that come by another route than ours",
	"retry_count":                "how often a message is sent again after a failure",
	"transaction_timeout":        "seconds until a message has failed for good",
	"health_sensitivity":         "what a failure takes from the health of an NI, 0 to 1000",
	"recovery_interval":          "obsolete, without effect",
	"router_sensitivity":         "percent of full health that a router's NI needs",
	"response_tracking":          "requests watched for a response: 0 none, 1 GET, 2 PUT, 3 both",
	"recovery_limit":             "seconds to try to bring an NI back, 0 for ever",
	"max_recovery_ping_interval": "most seconds between pings that try to bring an NI back",
}

// globalsWithoutEffect describes the parameters whose value has no effect, as in kernels.
var globalsWithoutEffect = map[string]string{
	"recovery_interval":  "is obsolete: nothing is changed",
	"router_sensitivity": "is kept and shown, but has no effect",
}

func (p *program) settables() []settable {
	buffers := func(change func(r *api.RoutingChange, n *int)) func(context.Context, *client.Client, int64) error {
		return func(ctx context.Context, c *client.Client, value int64) error {
			var r api.RoutingChange
			n := int(min(max(value, math.MinInt32), math.MaxInt32))
			change(&r, &n)
			return c.SetRouting(ctx, r)
		}
	}
	all := []settable{
		{"tiny_buffers", "router buffers without payload; 0 is the default", "",
			buffers(func(r *api.RoutingChange, n *int) { r.Tiny = n }), nil},
		{"small_buffers", "router buffers of one page; 0 is the default", "",
			buffers(func(r *api.RoutingChange, n *int) { r.Small = n }), nil},
		{"large_buffers", "router buffers of 1 MiB; 0 is the default", "",
			buffers(func(r *api.RoutingChange, n *int) { r.Large = n }), nil},
		{"routing", "1: forward messages between nets; 0: do not", "", func(ctx context.Context, c *client.Client, value int64) error {
			enabled := value == 1
			return c.SetRouting(ctx, api.RoutingChange{Enabled: &enabled})
		}, nil},
	}
	for _, name := range api.SettableGlobals() {
		all = append(all, settable{name, aboutGlobals[name], globalsWithoutEffect[name], func(ctx context.Context, c *client.Client, value int64) error {
			var r api.GlobalsChange
			r.Set(name, value)
			if err := c.SetGlobals(ctx, r); err != nil {
				return err
			}
			return p.warnOfGlobal(ctx, c, name, value)
		}, nil})
		if name == "discovery" {
			all[len(all)-1].words = discoveryWords()
		}
	}
	return all
}

func (p *program) setCommand() *cobra.Command {
	c := group("set", "set a parameter of the node")
	c.Example = "lnetdctl set discovery 0\nlnetdctl set transaction_timeout 10\nlnetdctl set log_level debug"
	for _, s := range p.settables() {
		c.AddCommand(command(manual{
			use:   s.name + " VALUE",
			short: s.about,
			long: `The value is in force at once, until lnetd restarts. See all with:
lnetdctl global show, and those of routers with: lnetdctl routing show.`,
			example: "lnetdctl set " + s.name + " 1",
			number:  true,
			exits: `0    success
1    help was asked for
195  the value is not possible (-61)
222  a number of buffers is negative (-34)
234  the value is not possible, or none was given (-22)
255  the value is not a number, or there is no lnetd to talk to (-1)`,
		}, func(ctx context.Context, operands []string) error { return p.set(ctx, &s, operands) }))
	}
	c.AddCommand(p.setLogLevelCommand())
	return c
}

func (p *program) set(ctx context.Context, s *settable, operands []string) error {
	if len(operands) != 1 {
		p.hint("set " + s.name + " needs one value")
		return needsHelp{exitInvalid}
	}
	if change, ok := s.words[operands[0]]; ok {
		return p.tell(errorForm{kind: oldDocument, op: "add", entity: s.name, advises: true},
			func(c *client.Client) error { return c.SetGlobals(ctx, change) })
	}
	value, ok := parseNumber(operands[0])
	parser := errorForm{kind: oldDocument, op: "parser", entity: "set", advises: true}
	switch {
	case !ok:
		remedy := "name a number"
		if valid := api.ValidGlobal(s.name); valid != "" {
			remedy = "valid values of " + s.name + ": " + valid
		}
		return p.invalid(parser, -1, "cannot parse "+s.name+" value", remedy)
	case s.name == "routing" && value != 0 && value != 1:
		return p.invalid(parser, -1, "cannot parse routing value. It is 0 or 1", "")
	}
	err := p.tell(errorForm{kind: oldDocument, op: "add", entity: s.name, advises: true},
		func(c *client.Client) error { return s.set(ctx, c, value) })
	switch {
	case err != nil:
	case s.noEffect != "":
		p.warn(s.name + " " + s.noEffect)
	case strings.HasSuffix(s.name, "_buffers") && value == -1:
		p.warn("-1 leaves " + s.name + " as it is: nothing is changed")
	}
	return err
}

// warnOfGlobal prints a warning if the parameter's value differs from the value that was set.
func (p *program) warnOfGlobal(ctx context.Context, c *client.Client, name string, value int64) error {
	if globalsWithoutEffect[name] != "" {
		return nil
	}
	g, err := c.Globals(ctx)
	if err != nil {
		return err
	}
	if name == "discovery" && g.Verify && value != 0 {
		p.warn("discovery stays verify; to leave it: lnetdctl set discovery on")
		return nil
	}
	for _, v := range g.Values() {
		if v.Name == name && v.Value != value {
			p.warn(fmt.Sprintf("%s is %d, not %d; valid values: %s", name, v.Value, value, api.ValidGlobal(name)))
		}
	}
	return nil
}
