package main

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
	"github.com/lnetd/lnetd/lnet"
)

func (p *program) udspCommand() *cobra.Command {
	return group("udsp", "user-defined selection policies for paths",
		p.udspAddCommand(), p.udspDelCommand(), p.udspShowCommand())
}

// udspErrors is the form of the errors of all commands about policies. As in lnetctl, all have the word "add".
var udspErrors = errorForm{kind: oldDocument, op: "add", entity: "udsp"}

const udspExits = `0    success
1    help was requested
142  the rule already exists (-114)
234  the rule is invalid (-22)
254  the rule does not exist (-2)
255  lnetd does not answer (-1)`

// udspOptions holds the options of "udsp add".
type udspOptions struct {
	src, dst, rte   []string
	priority, index string
}

func (p *program) udspAddCommand() *cobra.Command {
	var o udspOptions
	c := leaf(manual{
		use:   "add [--src PATTERN] [--dst PATTERN] [--rte PATTERN] [--priority N] [--idx N]",
		short: "add a policy",
		long: `A rule with only --src gives a priority to local nets or NIs; a rule with only --dst gives
one to nets or NIDs of peers. 0 is the highest priority and the default. With --src and
--dst, lnetd prefers the NIs of --src for messages to the NIDs of --dst. With --dst and
--rte, it prefers the gateways of --rte for messages to --dst. If preferred NIs or
gateways cannot be used, others are.

PATTERN is a net such as tcp or tcp[1-3], which includes all of its NIDs, or NIDs such as
10.0.0.[2-8/2]@tcp or *@tcp. If several rules match an object, the first one applies. A
rule has one pattern per option; if an option is repeated, one rule is added for each
pattern. Either all rules are added or none.`,
		example: `lnetdctl udsp add --src tcp1 --priority 0
lnetdctl udsp add --src 10.0.0.1@tcp --dst 10.0.0.[10-20]@tcp
lnetdctl udsp add --dst '*@o2ib' --rte 10.0.0.7@tcp --idx 0`,
		exits: udspExits,
	}, func(ctx context.Context) error { return p.udspAdd(ctx, o) })
	f := c.Flags()
	f.StringArrayVarP(&o.src, "src", "s", nil, "`PATTERN` of local nets or NIDs; may be repeated")
	f.StringArrayVarP(&o.dst, "dst", "d", nil, "`PATTERN` of nets or NIDs of peers; may be repeated")
	f.StringArrayVarP(&o.rte, "rte", "r", nil, "`PATTERN` of gateways' NIDs; may be repeated")
	f.StringVarP(&o.priority, "priority", "p", "", "priority `N`; 0 is the highest")
	f.StringVarP(&o.index, "idx", "i", "", "position `N` of the rule in the list (default: the end)")
	return c
}

func (p *program) udspAdd(ctx context.Context, o udspOptions) error {
	if len(o.src)+len(o.dst)+len(o.rte) == 0 {
		p.hint("the rule needs --src, --dst, --src with --dst, or --dst with --rte")
		return needsHelp{exitOK}
	}
	rules, err := p.udspRules(o)
	if err != nil {
		return err
	}
	return p.tell(udspErrors, func(c *client.Client) error {
		for k := range rules {
			if err := c.AddUDSP(ctx, rules[k]); err != nil {
				return errors.Join(err, removeRules(ctx, c, rules[:k]))
			}
		}
		return nil
	})
}

// udspRules returns the rules that the options request, one for each combination of patterns. If it returns an
// error, it has printed it.
func (p *program) udspRules(o udspOptions) ([]api.UDSPRule, error) {
	var one api.UDSPRule
	if o.priority != "" {
		n, err := p.udspNumber("priority", o.priority)
		if err != nil {
			return nil, err
		}
		one.Priority = new(uint32(n))
	}
	first := -1
	if o.index != "" {
		var err error
		if first, err = p.udspNumber("index", o.index); err != nil {
			return nil, err
		}
	}
	rules := []api.UDSPRule{one}
	for _, d := range []struct {
		name     string
		patterns []string
		of       func(*api.UDSPRule) *lnet.Pattern
	}{
		{"src", o.src, func(r *api.UDSPRule) *lnet.Pattern { return &r.Src }},
		{"dst", o.dst, func(r *api.UDSPRule) *lnet.Pattern { return &r.Dst }},
		{"rte", o.rte, func(r *api.UDSPRule) *lnet.Pattern { return &r.Rte }},
	} {
		var all []api.UDSPRule
		for _, text := range d.patterns {
			pattern, err := named(p, text, lnet.ParsePattern)
			if err != nil {
				return nil, p.invalid(udspErrors, -22, "failed to parse "+d.name+" parameter", err.Error())
			}
			for _, r := range rules {
				*d.of(&r) = pattern
				all = append(all, r)
			}
		}
		if all != nil {
			rules = all
		}
	}
	for k := range rules {
		if first >= 0 {
			rules[k].Index = new(first + k)
		}
	}
	return rules, nil
}

// removeRules deletes the rules in added from lnetd, to undo a command that has failed later.
func removeRules(ctx context.Context, c *client.Client, added []api.UDSPRule) error {
	if len(added) == 0 {
		return nil
	}
	there, err := c.UDSP(ctx, "")
	if err != nil {
		return err
	}
	for k, r := range slices.Backward(there) {
		same := func(o api.UDSPRule) bool { return r.Src.Equal(o.Src) && r.Dst.Equal(o.Dst) && r.Rte.Equal(o.Rte) }
		if slices.ContainsFunc(added, same) {
			err = errors.Join(err, c.DeleteUDSP(ctx, api.UDSPDeletion{Index: new(k)}))
		}
	}
	return err
}

// udspNumber parses a number that must not be negative. If it returns an error, it has printed it.
func (p *program) udspNumber(what, given string) (int, error) {
	n, ok := parseNumber(given)
	if !ok || api.PriorityRange.Check(n) != nil {
		return 0, p.invalid(errorForm{kind: plainText}, -22, "Invalid "+what+` "`+given+`"`, "")
	}
	return int(n), nil
}

func (p *program) udspDelCommand() *cobra.Command {
	var index string
	var all bool
	c := leaf(manual{
		use:     "del {--idx N | --all}",
		short:   "delete policies",
		long:    "The rules after a deleted one move up by one position.",
		example: "lnetdctl udsp del --idx 0\nlnetdctl udsp del --all",
		exits:   udspExits,
	}, func(ctx context.Context) error {
		plain := errorForm{kind: plainText}
		switch {
		case all && index != "":
			return p.invalid(plain, -22, "Cannot combine --all with --idx", "")
		case !all && index == "":
			return p.invalid(plain, -22, "Must specify --idx or --all", "")
		}
		r := api.UDSPDeletion{All: all}
		if !all {
			n, err := p.udspNumber("index", index)
			if err != nil {
				return err
			}
			r.Index = &n
		}
		return p.tell(udspErrors, func(c *client.Client) error { return c.DeleteUDSP(ctx, r) })
	})
	c.Flags().StringVarP(&index, "idx", "i", "", "position `N` of the rule")
	c.Flags().BoolVarP(&all, "all", "a", false, "every rule")
	return c
}

func (p *program) udspShowCommand() *cobra.Command {
	var index string
	c := leaf(manual{
		use:   "show [--idx N]",
		short: "print the policies",
		long: `With --idx it prints only the rule at that position. src, dst and rte are the patterns;
action is the effect of a match.`,
		example: "lnetdctl udsp show",
		exits:   udspExits,
	}, func(ctx context.Context) error {
		one := ""
		if index != "" {
			n, err := p.udspNumber("index", index)
			if err != nil {
				return err
			}
			one = strconv.Itoa(n)
		}
		return show(p, errorForm{kind: oldDocument, op: "show", entity: "udsp"}, classic,
			func(c *client.Client) ([]api.UDSPRule, error) { return c.UDSP(ctx, one) },
			func(rules []api.UDSPRule) any { return api.UDSP{Rules: rules} },
			rulesDocument)
	})
	c.Flags().StringVarP(&index, "idx", "i", "", "print only the rule at position `N`")
	return c
}

// rulesDocument returns the document of "udsp show" (lnetctl 5.8).
func rulesDocument(rules []api.UDSPRule) mapping {
	var list sequence
	for i := range rules {
		r := &rules[i]
		m := mapping{}
		if r.Index != nil {
			m = append(m, entry{"idx", number(*r.Index)})
		}
		m = appendPattern(m, "src", r.Src)
		m = appendPattern(m, "dst", r.Dst)
		m = appendPattern(m, "rte", r.Rte)
		if r.Priority != nil {
			m = append(m, entry{"action", mapping{{"priority", number(uint64(*r.Priority))}}})
		}
		list = append(list, m)
	}
	return section("udsp", list)
}

// appendPattern appends a pattern with a key to m and returns the result. It omits an empty pattern.
func appendPattern(m mapping, key string, d lnet.Pattern) mapping {
	if d.IsZero() {
		return m
	}
	return append(m, entry{key, text(d.String())})
}
