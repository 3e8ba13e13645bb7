package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
)

// pingOptions holds the options of the command "ping".
type pingOptions struct {
	source  string
	timeout string
	verbose string
}

// terminalPingTimeout is the default timeout of "ping" on a terminal in seconds. A user who waits wants to know sooner
// than a script that a node does not answer.
const terminalPingTimeout = 10

var pingErrors = errorForm{op: "manage", entity: "ping"}

func (p *program) pingCommand() *cobra.Command {
	var o pingOptions
	c := command(manual{
		use:   "ping [--source NID] [--timeout SECONDS] [--verbose] NIDS...",
		short: "ping nodes and print their NIDs",
		long: `Each of NIDS is a NID, a comma list of NIDs, or a range such as 10.0.0.[1-3]@tcp. A host
name may be used instead of an address, and a process ID (12345-10.0.0.1@tcp) instead of a
NID. Up to 32 nodes are pinged at the same time. Answers are printed first, then failures.

On a terminal, and with --verbose, "rtt" is the time from the ping until its answer. It
includes the time to connect if there was no connection.`,
		example: `lnetdctl ping 10.0.0.1@tcp
lnetdctl ping --timeout 5 10.0.0.[1-4]@tcp server7@tcp1`,
		exits: `0    every node answered, or help was requested
234  NIDS is invalid, or the request was refused (-22)
255  a node did not answer, or lnetd does not answer (-1)`,
		helps: true,
	}, func(ctx context.Context, operands []string) error { return p.ping(ctx, o, operands) })
	f := c.Flags()
	f.StringVarP(&o.source, "source", "s", "", "local `NID` to ping from")
	f.StringVarP(&o.timeout, "timeout", "t", "", "wait `SECONDS` for each node (default 10 on a terminal, and otherwise 180)")
	verbosity(c, &o.verbose, "print round-trip times; all `LEVEL`s above 0 mean the same")
	return c
}

func (p *program) ping(ctx context.Context, o pingOptions, operands []string) error {
	if len(operands) == 0 {
		return p.noTargets()
	}
	req := api.PingRequest{Source: o.source}
	n, ok := p.numberOrNone("timeout", o.timeout)
	switch {
	case ok && n > 0:
		req.Timeout = float64(n)
	case p.onTerminal():
		req.Timeout = terminalPingTimeout
	}
	if o.source != "" {
		if _, err := named(p, o.source, lnet.ParseNID); err != nil {
			return p.badSource(o.source, err)
		}
	}
	form := pingErrors
	form.timed = p.onTerminal() || verbosityLevel(o.verbose) >= 1
	return p.pingTargets(ctx, form, req, operands)
}

// pingTargets makes lnetd ping the nodes that targets name, with the source and timeout of req, and prints the
// results.
func (p *program) pingTargets(ctx context.Context, form errorForm, req api.PingRequest, targets []string) (err error) {
	if req.NIDs, err = p.expandTargets(ctx, targets, api.PingTargetsMax); err != nil {
		return p.badList(form, err)
	}
	client := p.client()
	defer client.Close()
	results, err := client.Ping(ctx, req)
	if err != nil {
		return p.refused(form, err)
	}
	return p.showResults(form, results)
}

// showResults prints the results of pings or discoveries.
func (p *program) showResults(form errorForm, results []api.PingResult) error {
	var good, bad sequence
	for _, r := range results {
		if r.Error == nil {
			good = append(good, answered(r, form.timed))
			continue
		}
		bad = append(bad, errorEntry(form.entity, form.seqNo, r.Error.Errno, text(r.Error.Text)))
	}
	if p.json {
		for k := range results {
			if f := results[k].Error; f != nil {
				results[k].Error = f.WithRemedy()
			}
		}
		if err := p.printJSON(api.PingReply{Results: results}); err != nil {
			return err
		}
	} else {
		if err := narrow.write(p.stdout, append(section(form.entity, good), section("manage", bad)...)); err != nil {
			return err
		}
		p.adviseOn(results)
	}
	if len(bad) > 0 {
		return status(exitFailure)
	}
	return nil
}

// adviseOn prints what to do about the targets that did not answer.
func (p *program) adviseOn(results []api.PingResult) {
	silent := ""
	for _, r := range results {
		if r.Error == nil {
			continue
		}
		silent = cmp.Or(silent, r.Target)
		for _, advice := range []string{r.Error.Cause, r.Error.Remedy} {
			if advice != "" {
				p.hint(r.Target + ": " + advice)
			}
		}
	}
	if id, err := lnet.ParseProcessID(silent); err == nil {
		p.hint("to find out why, use: " + ownName + " doctor " + id.NID.String())
	}
}

// answered returns the item for a target that has answered, with the round-trip time if timed is set.
func answered(r api.PingResult, timed bool) mapping {
	nids := sequence{}
	for _, nid := range r.NIDs {
		name := nid.String()
		if r.PID != lnet.PIDLustre {
			name = fmt.Sprintf("%d-%s", uint32(r.PID), name)
		}
		nids = append(nids, mapping{{"nid", text(name)}})
	}
	m := mapping{
		{"primary nid", text(r.Primary.String())},
		{"Multi-Rail", boolean(r.MultiRail)},
	}
	if timed && r.RTT > 0 { // lnetctl does not print it
		m = append(m, entry{"rtt", text(fmt.Sprintf("%.3f ms", time.Duration(r.RTT).Seconds()*1000))})
	}
	return append(m, entry{"peer_ni", nids})
}

// noTargets prints the error of "ping" without targets, and returns the exit status. It adds a hint, because
// lnetctl's message does not say what is wrong.
func (p *program) noTargets() error {
	const needs = "Ping needs NID targets"
	if p.json {
		p.failJSON(&api.Fault{Code: api.CodeRequestInvalid, Errno: -22, Text: needs})
		return status(exitInvalid)
	}
	fmt.Fprintln(p.stderr, "Writer error: write error")
	p.hint(needs + ", for example: " + p.name + " ping 10.0.0.1@tcp")
	return status(exitInvalid)
}

// badSource prints the error of "ping" if the source is not a NID, and returns the exit status. lnetctl does
// not check this (lnetctl 4.12).
func (p *program) badSource(source string, err error) error {
	return p.invalid(pingErrors, -22, "cannot parse source NID '"+source+"'", err.Error())
}
