package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
)

func (p *program) faultCommand() *cobra.Command {
	return group("fault", "fault injection: rules that drop or delay messages",
		p.faultKindCommand(api.FaultDrop, "rules that drop messages"),
		p.faultKindCommand(api.FaultDelay, "rules that delay messages"))
}

func (p *program) faultKindCommand(kind, about string) *cobra.Command {
	return group(kind, about,
		p.faultAddCommand(kind), p.faultDelCommand(kind), p.faultResetCommand(kind), p.faultShowCommand(kind))
}

const faultExits = `0    success
1    help was requested
234  lnetd refused the rule (-22)
254  there is no such rule (-2)
255  an option is missing or invalid, or lnetd does not answer (-1)`

// faultOptions holds the options of "fault drop add" and "fault delay add".
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
		long: `A rule applies to messages that match --source, --dest and all other filters. Of these it
drops one of every N, or one in every SECONDS. NID is a NID, *@NET, or * for all.
Messages are dropped when they arrive; with --health_error, sends fail instead. Newer
rules come first: a message that one drops is not counted by older ones.`,
		example: `lnetdctl fault drop add --source '*@tcp' --dest 10.0.0.1@tcp --rate 10
lnetdctl fault drop add -s '*' -d '*' -r 1 -m get -e local_dropped`,
		exits: faultExits,
	}
	if delay {
		m.use = "add --source NID --dest NID --latency SECONDS {--rate N | --interval N} [OPTIONS]"
		m.long = `A rule applies to messages that match --source, --dest and all other filters. Of these it
delays one of every N, or one in every N seconds. NID is a NID, *@NET, or * for all.
Messages are delayed before they are sent and when they arrive. When the rule is deleted,
the messages that it delays continue at once.`
		m.example = "lnetdctl fault delay add --source '*@tcp' --dest 10.0.0.1@tcp --rate 1 --latency 2"
	}
	c := leaf(m, func(ctx context.Context) error { return p.faultAdd(ctx, o) })
	f := c.Flags()
	f.StringVarP(&o.rule.Source, "source", "s", "", "source `NID` of the messages")
	f.StringVarP(&o.rule.Dest, "dest", "d", "", "destination `NID` of the messages")
	f.StringVarP(&o.rate, "rate", "r", "", "apply to one of every `N` messages")
	f.StringArrayVarP(&o.portals, "portal", "p", nil, "only PUTs and GETs of portal `N`, 0 to 63; may be repeated")
	f.StringArrayVarP(&o.rule.Messages, "message", "m", nil, "only messages of `TYPE` put, ack, get or reply; may be repeated")
	f.StringVarP(&o.rule.Local, "local_nid", "o", "", "only messages that arrive at this local `NID`")
	if delay {
		f.StringVar(&o.interval, "interval", "", "apply to one message in every `SECONDS`")
		f.StringVarP(&o.latency, "latency", "l", "", "delay messages by `SECONDS`")
		return c
	}
	f.StringVarP(&o.interval, "interval", "i", "", "apply to one message in every `SECONDS`")
	f.BoolVarP(&o.rule.Random, "random", "n", false, "with --interval: apply to each message with a probability of 1/2")
	f.StringArrayVarP(&o.rule.Statuses, "health_error", "e", nil,
		"fail sends with `ERROR` such as local_dropped, or random; may be repeated")
	f.BoolVarP(&o.rule.DropAll, "drop_all", "x", false, "apply to every message, both arriving and sent")
	return c
}

func (p *program) faultAdd(ctx context.Context, o faultOptions) error {
	r := o.rule
	switch {
	case r.Source == "" || r.Dest == "":
		return p.faultMisuse("both --source and --dest are needed")
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

// faultMisuse prints an error about invalid options of "fault" (lnetctl 15), and returns the exit status.
func (p *program) faultMisuse(what string) error {
	if p.json {
		p.failJSON(&api.Fault{Code: api.CodeRequestInvalid, Errno: -22, Text: what})
	} else {
		fmt.Fprintln(p.stderr, what)
		p.advise(&api.Fault{Code: api.CodeRuleInvalid})
	}
	return status(exitFailure)
}

func (p *program) faultDelCommand(kind string) *cobra.Command {
	r := api.FaultDeletion{Kind: kind}
	c := leaf(manual{
		use: "del {--source NID --dest NID | --all}", short: "delete rules",
		long:    "Deletes the rules with exactly this source and destination. * selects rules with any.",
		example: "lnetdctl fault " + kind + " del --source '*@tcp' --dest 10.0.0.1@tcp\nlnetdctl fault " + kind + " del --all",
		exits:   faultExits,
	}, func(ctx context.Context) error {
		named := r.Source != "" || r.Dest != ""
		if r.All == named || named && (r.Source == "" || r.Dest == "") {
			return p.faultMisuse("--source and --dest are needed together, or --all alone")
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
		long:    `The rules remain in force.`,
		example: "lnetdctl fault " + kind + " reset",
		exits:   faultExits,
	}, func(ctx context.Context) error {
		return p.tell(errorForm{kind: plainText}, func(c *client.Client) error { return c.ResetFaults(ctx) })
	})
}

func (p *program) faultShowCommand(kind string) *cobra.Command {
	return leaf(manual{
		use: "show", short: "print the rules and their counters, newest first",
		long: `fs_count is the number of messages that matched the filters of the rule and that no newer
rule had hit. ds_dropped (ls_delayed) is the number of messages that the rule dropped or
failed (delayed). fs_put, fs_ack, fs_get and fs_reply are the same messages by type.`,
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
