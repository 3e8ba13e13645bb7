package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
	"github.com/lnetd/lnetd/lnet"
)

func (p *program) selectionCommand() *cobra.Command {
	c := group("selection", "selection rules by type, each with an id")
	for _, kind := range ruleKinds {
		addTo(c, group(kind.name, kind.about,
			p.selectionAddCommand(&kind), p.selectionDelCommand(&kind), p.selectionShowCommand(&kind)))
	}
	return c
}

// ruleKind is one of the types of selection rules (lnetctl 11), with the texts for its commands.
type ruleKind struct {
	name, about string
	// patterns holds the names of the options that set the patterns of a rule.
	patterns []string
	// long describes the effect of a rule. example is a command that adds such a rule.
	long, example string
}

var ruleKinds = []ruleKind{
	{
		name: "net", about: "rules that give nets a priority", patterns: []string{"net"},
		long:    "Matching nets of this node and of peers get the priority; 0 is the highest.",
		example: "--net 'o2ib*' --priority 0",
	}, {
		name: "nid", about: "rules that give NIDs a priority", patterns: []string{"nid"},
		long:    "NIs of this node and of peers with matching NIDs get the priority; 0 is the highest.",
		example: "--nid 10.0.0.[1-4]@tcp --priority 1",
	}, {
		name: "peer", about: "rules that prefer local NIs for NIDs of peers", patterns: []string{"local", "remote"},
		long: `lnetd prefers the matching local NIs for messages to the matching NIDs of peers. If
several rules match a NID, all of those with the highest priority apply; 0 is the
highest.`,
		example: "--local 10.0.0.1@tcp --remote 10.0.0.[10-20]@tcp --priority 0",
	},
}

// selectionOptions holds the options of the commands about selection rules.
type selectionOptions struct {
	patterns     map[string]*string
	priority, id string
}

func (o *selectionOptions) addPatterns(c *cobra.Command, k *ruleKind) {
	o.patterns = map[string]*string{}
	for _, name := range k.patterns {
		o.patterns[name] = c.Flags().String(name, "", "`PATTERN` as for udsp add")
	}
}

func (o *selectionOptions) addID(c *cobra.Command, usage string) {
	c.Flags().StringVar(&o.id, "id", "", usage)
}

func (k *ruleKind) synopsis(verb string, optional bool) string {
	form := " --%s PATTERN"
	if optional {
		form = " [--%s PATTERN]"
	}
	for _, name := range k.patterns {
		verb += fmt.Sprintf(form, name)
	}
	return verb
}

// single returns the word for what a pattern without wildcards names in rules of this type: "net" or "NID".
func (k *ruleKind) single() string {
	if k.name == "net" {
		return "net"
	}
	return "NID"
}

func (p *program) selectionAddCommand(k *ruleKind) *cobra.Command {
	var o selectionOptions
	c := leaf(manual{
		use: k.synopsis("add", false) + " [--priority N] [--id N]", short: "add a rule", long: k.long,
		example: "lnetdctl selection " + k.name + " add " + k.example,
		exits:   udspExits,
	}, func(ctx context.Context) error {
		r, err := p.selectionRule(k, &o, selectionErrors("add"))
		if err != nil {
			return err
		}
		return p.tell(selectionErrors("add"), func(c *client.Client) error { return c.AddSelection(ctx, r) })
	})
	o.addPatterns(c, k)
	c.Flags().StringVar(&o.priority, "priority", "", "priority `N`; 0 is the highest (default 0)")
	o.addID(c, "id `N` of the rule (default: an id that has not been used)")
	return c
}

func (p *program) selectionDelCommand(k *ruleKind) *cobra.Command {
	var o selectionOptions
	c := leaf(manual{
		use: k.synopsis("del", false) + " | --id N", short: "delete a rule",
		long:    "The rule is selected by its id, by its patterns, or by both if they match the same rule.",
		example: "lnetdctl selection " + k.name + " del --id 0",
		exits:   udspExits,
	}, func(ctx context.Context) error {
		r, err := p.selectionRule(k, &o, selectionErrors("del"))
		if err != nil {
			return err
		}
		return p.tell(selectionErrors("del"), func(c *client.Client) error { return c.DeleteSelection(ctx, r) })
	})
	o.addPatterns(c, k)
	o.addID(c, "id `N` of the rule")
	return c
}

func (p *program) selectionShowCommand(k *ruleKind) *cobra.Command {
	var o selectionOptions
	c := leaf(manual{
		use: k.synopsis("show", true) + " [--id N]", short: "print the rules",
		long: `Of rules about the same object the first one decides. With a pattern only
rules that have it, or that match it if it is a single ` + k.single() + `, are printed.`,
		example: "lnetdctl selection " + k.name + " show",
		exits:   udspExits,
	}, func(ctx context.Context) error {
		r, err := p.selectionRule(k, &o, selectionErrors("show"))
		if err != nil {
			return err
		}
		id := ""
		if r.ID != nil {
			id = strconv.Itoa(*r.ID)
		}
		return show(p, selectionErrors("show"), classic,
			func(c *client.Client) ([]api.SelectionRule, error) {
				rules, err := c.Selection(ctx, k.name, id)
				return slices.DeleteFunc(rules, func(o api.SelectionRule) bool { return !covers(&o, &r) }), err
			},
			func(rules []api.SelectionRule) any { return api.Selection{Rules: rules} },
			selectionDocument)
	})
	o.addPatterns(c, k)
	o.addID(c, "print only the rule with the id `N`")
	return c
}

// covers reports whether "show" prints a rule if filter has the given patterns. For each of them, the rule must
// have the same pattern, or a pattern that matches it if it is a single net or NID.
func covers(rule, filter *api.SelectionRule) bool {
	for _, p := range [][2]lnet.Pattern{
		{rule.Net, filter.Net}, {rule.NID, filter.NID}, {rule.Local, filter.Local}, {rule.Remote, filter.Remote},
	} {
		if !p[1].IsZero() && !p[0].Equal(p[1]) && !coversOne(p[0], p[1]) {
			return false
		}
	}
	return true
}

// coversOne reports whether one is a single net or NID that pattern matches.
func coversOne(pattern, one lnet.Pattern) bool {
	if n, ok := one.OneNet(); ok && !one.HasAddress() {
		return pattern.MatchNet(n)
	}
	nid, err := lnet.ParseNID(one.String())
	return err == nil && pattern.MatchNID(nid)
}

func selectionErrors(op string) errorForm {
	return errorForm{kind: oldDocument, op: op, entity: "selection"}
}

// selectionRule returns the rule that the options describe. If it returns an error, it has printed it.
func (p *program) selectionRule(k *ruleKind, o *selectionOptions, form errorForm) (api.SelectionRule, error) {
	r := api.SelectionRule{Type: k.name}
	into := map[string]*lnet.Pattern{"net": &r.Net, "nid": &r.NID, "local": &r.Local, "remote": &r.Remote}
	for name, pattern := range o.patterns {
		if *pattern == "" {
			continue
		}
		var err error
		if *into[name], err = named(p, *pattern, lnet.ParsePattern); err != nil {
			return r, p.invalid(form, -22, "failed to parse "+name+" parameter", err.Error())
		}
	}
	number := func(name, given string, takes api.Range) (int64, error) {
		n, ok := parseNumber(given)
		if !ok || takes.Check(n) != nil {
			return 0, p.invalid(form, -22, "Invalid "+name+` "`+given+`"`, "it must be a number from "+takes.String())
		}
		return n, nil
	}
	if o.priority != "" {
		n, err := number("priority", o.priority, api.PriorityRange)
		if err != nil {
			return r, err
		}
		r.Priority = uint32(n)
	}
	if o.id != "" {
		n, err := number("id", o.id, api.RuleIDRange)
		if err != nil {
			return r, err
		}
		id := int(n)
		r.ID = &id
	}
	return r, nil
}

// selectionDocument returns the document of "selection ... show" (lnetctl 11).
func selectionDocument(rules []api.SelectionRule) mapping {
	var list sequence
	for i := range rules {
		r := &rules[i]
		m := mapping{{"type", text(r.Type)}}
		m = appendPattern(m, "net", r.Net)
		m = appendPattern(m, "nid", r.NID)
		m = appendPattern(m, "local", r.Local)
		m = appendPattern(m, "remote", r.Remote)
		m = append(m, entry{"priority", number(uint64(r.Priority))})
		if r.ID != nil {
			m = append(m, entry{"id", number(*r.ID)})
		}
		list = append(list, m)
	}
	return section("selection", list)
}
