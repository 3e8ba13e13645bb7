package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
)

func (p *program) faultCommand() *cobra.Command {
	return group("fault", "rules by which messages go wrong on purpose",
		p.faultKindCommand(api.FaultDrop, "rules that drop messages"),
		p.faultKindCommand(api.FaultDelay, "rules that hold messages for a while"))
}

func (p *program) faultKindCommand(kind, about string) *cobra.Command {
	return group(kind, about,
		p.faultAddCommand(kind), p.faultDelCommand(kind), p.faultResetCommand(kind), p.faultShowCommand(kind))
}

const faultExits = `0    success
1    help was asked for
234  lnetd refused the rule (-22)
254  there is no such rule (-2)
255  an option is missing or makes no sense, or there is no lnetd to talk to (-1)`

// faultOptions are the options of "fault drop add" and "fault delay add".
type faultOptions struct {
	rule                    api.FaultRule
	rate, interval, latency string
	portals                 []string
}

func (p *program) faultAddCommand(kind string) *cobra.Command {
	o := faultOptions{rule: api.FaultRule{Kind: kind}}
	delay := kind == api.FaultDelay
	m := manual{
		use: "add --source NID --dest NID {--rate N | --interval SECONDS} [OPTIONS]", short: "add a rule",
		long: `A message is hit if it is from --source, for --dest, and of the other things
that are given: one of every N, or one in every so many seconds. NID is a NID,
*@NET, or * for all. A message that arrives is dropped; with --health_error one
that is to be sent fails. Of several rules the newest that hits decides.`,
		example: `lnetdctl fault drop add --source '*@tcp' --dest 10.0.0.1@tcp --rate 10
lnetdctl fault drop add -s '*' -d '*' -r 1 -m get -e local_dropped`,
		exits: faultExits,
	}
	if delay {
		m.use = "add --source NID --dest NID --latency SECONDS {--rate N | --interval N} [OPTIONS]"
		m.long = `A message is held if it is from --source, for --dest, and of the other things
that are given: one of every N, or one in every so many seconds. NID is a NID,
*@NET, or * for all. Messages are held before they are sent, and when they
arrive. Deleting the rule lets go what it holds.`
		m.example = "lnetdctl fault delay add --source '*@tcp' --dest 10.0.0.1@tcp --rate 1 --latency 2"
	}
	c := leaf(m, func(ctx context.Context) error { return p.faultAdd(ctx, o) })
	f := c.Flags()
	f.StringVarP(&o.rule.Source, "source", "s", "", "`NID` that messages are from")
	f.StringVarP(&o.rule.Dest, "dest", "d", "", "`NID` that messages are for")
	f.StringVarP(&o.rate, "rate", "r", "", "hit one of every `N` messages")
	f.StringArrayVarP(&o.portals, "portal", "p", nil, "only PUTs and GETs of portal `N`, 0 to 63; may be repeated")
	f.StringArrayVarP(&o.rule.Messages, "message", "m", nil, "only messages of `TYPE` put, ack, get or reply; may be repeated")
	f.StringVarP(&o.rule.Local, "local_nid", "o", "", "only messages that arrive at this local `NID`")
	if delay {
		f.StringVar(&o.interval, "interval", "", "hit one message in every `SECONDS`")
		f.StringVarP(&o.latency, "latency", "l", "", "hold messages for `SECONDS`")
		return c
	}
	f.StringVarP(&o.interval, "interval", "i", "", "hit one message in every `SECONDS`")
	f.BoolVarP(&o.rule.Random, "random", "n", false, "with --interval: hit each message with a probability of 1/2")
	f.StringArrayVarP(&o.rule.Statuses, "health_error", "e", nil,
		"fail sends with `ERROR` such as local_dropped, or random; may be repeated")
	f.BoolVarP(&o.rule.DropAll, "drop_all", "x", false, "hit every message, arriving and sent")
	return c
}

func (p *program) faultAdd(ctx context.Context, o faultOptions) error {
	r := o.rule
	switch {
	case r.Source == "" || r.Dest == "":
		return p.faultMisuse("--source and --dest are both needed")
	case (o.rate == "") == (o.interval == ""):
		return p.faultMisuse("either --rate or --interval is needed")
	case r.Kind == api.FaultDelay && o.latency == "":
		return p.faultMisuse("--latency is needed")
	}
	for _, n := range []struct {
		name, given string
		to          *int
	}{{"rate", o.rate, &r.Rate}, {"interval", o.interval, &r.Interval}, {"latency", o.latency, &r.Latency}} {
		if n.given == "" {
			continue
		}
		v, ok := parseNumber(n.given)
		if !ok || v < 1 || v != int64(int32(v)) {
			return p.faultMisuse(fmt.Sprintf("--%s '%s' is not a number above 0", n.name, n.given))
		}
		*n.to = int(v)
	}
	r.Portals = nil
	for _, given := range o.portals {
		v, ok := parseNumber(given)
		if !ok || v < 0 || v > 63 {
			return p.faultMisuse(fmt.Sprintf("--portal '%s' is not within 0 to 63", given))
		}
		r.Portals = append(r.Portals, int(v))
	}
	return p.tell(errorForm{kind: plainText}, func(c *client.Client) error { return c.AddFault(ctx, r) })
}

// faultMisuse reports invalid options (lnetctl 15).
func (p *program) faultMisuse(what string) error {
	if p.json {
		p.failJSON(&api.Fault{Code: api.CodeRequestInvalid, Errno: -22, Text: what})
	} else {
		fmt.Fprintln(p.stderr, what)
	}
	return status(exitFailure)
}

func (p *program) faultDelCommand(kind string) *cobra.Command {
	r := api.FaultDeletion{Kind: kind}
	c := leaf(manual{
		use: "del {--source NID --dest NID | --all}", short: "delete rules",
		long:    "Every rule with just this source and destination is deleted. * stands for any.",
		example: "lnetdctl fault " + kind + " del --source '*@tcp' --dest 10.0.0.1@tcp\nlnetdctl fault " + kind + " del --all",
		exits:   faultExits,
	}, func(ctx context.Context) error {
		named := r.Source != "" || r.Dest != ""
		if r.All == named || named && (r.Source == "" || r.Dest == "") {
			return p.faultMisuse("either --source and --dest or --all are needed")
		}
		return p.tell(errorForm{kind: plainText}, func(c *client.Client) error { return c.DeleteFaults(ctx, r) })
	})
	f := c.Flags()
	f.StringVarP(&r.Source, "source", "s", "", "`NID` that the rule has")
	f.StringVarP(&r.Dest, "dest", "d", "", "`NID` that the rule has")
	f.BoolVarP(&r.All, "all", "a", false, "every "+kind+" rule")
	return c
}

func (p *program) faultResetCommand(kind string) *cobra.Command {
	return leaf(manual{
		use: "reset", short: "zero the counters of all fault rules",
		long:    `The rules stay, and go on with what they do.`,
		example: "lnetdctl fault " + kind + " reset",
		exits:   faultExits,
	}, func(ctx context.Context) error {
		return p.tell(errorForm{kind: plainText}, func(c *client.Client) error { return c.ResetFaults(ctx) })
	})
}

func (p *program) faultShowCommand(kind string) *cobra.Command {
	return leaf(manual{
		use: "show", short: "print the rules, the newest first, with their counters",
		long: `fs_put, fs_ack, fs_get and fs_reply are the messages that were looked at; ds_dropped and
ls_delayed those that were hit.`,
		example: "lnetdctl fault " + kind + " show",
		exits:   faultExits,
	}, func(ctx context.Context) error {
		return show(p, errorForm{op: "show", entity: "fault"}, wide,
			func(c *client.Client) ([]api.FaultRule, error) { return c.Faults(ctx, kind) },
			func(rules []api.FaultRule) any { return api.FaultRules{Rules: rules} },
			faultsDocument)
	})
}

// faultsDocument returns the document of "fault drop show" and "fault delay show" (lnetctl 15).
func faultsDocument(rules []api.FaultRule) mapping {
	var list sequence
	for i := range rules {
		r := &rules[i]
		counts := r.Counts
		if counts == nil {
			counts = &api.FaultCounts{}
		}
		m := mapping{
			{"rule_type", text(r.Kind)},
			{"fa_src", text(r.Source)},
			{"fa_dst", text(r.Dest)},
			{"fa_ptl_mask", number(r.PortalMask())},
			{"fa_msg_mask", number(r.MessageMask())},
		}
		if r.Kind == api.FaultDelay {
			m = append(m,
				entry{"la_rate", number(r.Rate)},
				entry{"la_interval", number(r.Interval)},
				entry{"la_latency", number(r.Latency)},
				entry{"ls_delayed", number(counts.Hits)},
			)
		} else {
			m = append(m,
				entry{"da_rate", number(r.Rate)},
				entry{"da_interval", number(r.Interval)},
				entry{"ds_dropped", number(counts.Hits)},
			)
		}
		list = append(list, append(m,
			entry{"fs_count", number(counts.Matched)},
			entry{"fs_put", number(counts.Put)},
			entry{"fs_ack", number(counts.Ack)},
			entry{"fs_get", number(counts.Get)},
			entry{"fs_reply", number(counts.Reply)},
		))
	}
	return section("fault", list)
}
