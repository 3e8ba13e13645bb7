package main

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
	"github.com/lnetd/lnetd/internal/lnetd/control/parameters"
)

// A settable is a parameter that the command "set" can set.
type settable struct {
	name  string
	about string
	// noEffect is a message that setting the parameter has no effect. It is empty if setting it has an
	// effect.
	noEffect string
	// valid describes the valid values, for messages. It may be empty.
	valid string
	// set asks lnetd to set the parameter to a number.
	set func(ctx context.Context, c *client.Client, value int64) error
	// words holds the values that are not numbers, with the changes that they stand for.
	words map[string]api.GlobalsChange
}

// discoveryName is the name of the parameter for discovery, whose values may also be words.
const discoveryName = "discovery"

// discoveryWords returns for the name of each discovery mode the change that sets it (lnetctl 11).
func discoveryWords() map[string]api.GlobalsChange {
	off, on := map[string]int64{discoveryName: 0}, map[string]int64{discoveryName: 1}
	return map[string]api.GlobalsChange{
		"on": {Values: on, Verify: new(false)}, "off": {Values: off}, "verify": {Values: on, Verify: new(true)},
	}
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
		{"tiny_buffers", "number of router buffers without payload; 0 means the default", "", "",
			buffers(func(r *api.RoutingChange, n *int) { r.Tiny = n }), nil},
		{"small_buffers", "number of router buffers of one page; 0 means the default", "", "",
			buffers(func(r *api.RoutingChange, n *int) { r.Small = n }), nil},
		{"large_buffers", "number of router buffers of 1 MiB; 0 means the default", "", "",
			buffers(func(r *api.RoutingChange, n *int) { r.Large = n }), nil},
		{"routing", "1: route messages between nets; 0: do not", "", "", func(ctx context.Context, c *client.Client, value int64) error {
			enabled := value == 1
			return c.SetRouting(ctx, api.RoutingChange{Enabled: &enabled})
		}, nil},
	}
	for _, one := range parameters.Settable() {
		all = append(all, p.parameterSettable(&one))
	}
	return all
}

// parameterSettable returns the settable for a parameter of the node.
func (p *program) parameterSettable(one *parameters.Parameter) settable {
	s := settable{
		name: one.Name, about: one.Describe(), noEffect: one.NoEffect, valid: one.Valid(),
		set: func(ctx context.Context, c *client.Client, value int64) error {
			if err := c.SetGlobals(ctx, api.GlobalsChange{Values: map[string]int64{one.Name: value}}); err != nil {
				return err
			}
			return p.warnOfGlobal(ctx, c, one, value)
		},
	}
	if one.Name == discoveryName {
		s.words = discoveryWords()
	}
	return s
}

func (p *program) setCommand() *cobra.Command {
	c := group("set", "set a parameter of the node")
	c.Example = "lnetdctl set discovery 0\nlnetdctl set transaction_timeout 10\nlnetdctl set log_level debug"
	for _, s := range p.settables() {
		c.AddCommand(command(manual{
			use:   s.name + " VALUE",
			short: s.about,
			long: `The value applies at once, and until lnetd restarts. To see all parameters, use
"lnetdctl global show" and, for routers, "lnetdctl routing show".`,
			example: "lnetdctl set " + s.name + " 1",
			number:  true,
			exits: `0    success
1    help was requested
195  the value is out of range (-61)
222  the number of buffers is negative (-34)
234  the value is out of range or missing (-22)
255  the value is not a number, or lnetd does not answer (-1)`,
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
		remedy := "give a number"
		if s.valid != "" {
			remedy = "valid values of " + s.name + ": " + s.valid
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
		p.warn("-1 leaves " + s.name + " unchanged")
	}
	return err
}

// warnOfGlobal reads a parameter after it was set, and prints a warning if its value is not the one that was
// requested.
func (p *program) warnOfGlobal(ctx context.Context, c *client.Client, one *parameters.Parameter, value int64) error {
	if one.NoEffect != "" {
		return nil
	}
	g, err := c.Globals(ctx)
	if err != nil {
		return err
	}
	if one.Name == discoveryName && g.Verify && value != 0 {
		p.warn("discovery is still \"verify\"; to change that, use: lnetdctl set discovery on")
		return nil
	}
	if now, ok := g.Values[one.Name]; ok && now != value {
		p.warn(fmt.Sprintf("%s is %d, not %d; valid values: %s", one.Name, now, value, one.Valid()))
	}
	return nil
}
