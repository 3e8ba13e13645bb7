package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
)

// explainOptions holds the options of the command "explain".
type explainOptions struct {
	source, portal string
	figures        bool
}

var explainErrors = errorForm{op: "show", entity: "explain"}

func (p *program) explainCommand() *cobra.Command {
	var o explainOptions
	c := command(manual{
		use:   "explain [--source NID] [--portal N] [--verbose] NID",
		short: "print the path that a message to a NID would take now, and why",
		long: `Prints the path first, then the choices that led to it. Each choice lists the candidates
by rank, the chosen one first, with the criterion that decided, and then the excluded
ones with the reason. Nothing is sent and nothing changes. The next message may take
another path if equal NIs take turns.`,
		example: `lnetdctl explain 10.0.1.7@tcp1
lnetdctl explain --source 10.0.0.1@tcp --verbose 10.9.0.1@o2ib`,
		exits: `0    there is a path
1    help was requested
234  NID is missing or invalid (-22)
255  there is no path, or lnetd does not answer (-1)`,
	}, func(ctx context.Context, operands []string) error { return p.explain(ctx, o, operands) })
	f := c.Flags()
	f.StringVarP(&o.source, "source", "s", "", "local `NID` to send the message from")
	f.StringVarP(&o.portal, "portal", "p", "", "destination portal `N` of the message; 0 is for pings and pushes")
	f.BoolVarP(&o.figures, "verbose", "v", false, "print all values that are compared")
	return c
}

func (p *program) explain(ctx context.Context, o explainOptions, operands []string) error {
	if len(operands) != 1 {
		p.hint("explain needs one NID, for example: " + p.name + " explain 10.0.0.1@tcp")
		return needsHelp{exitInvalid}
	}
	if o.portal != "" {
		n, ok := parseNumber(o.portal)
		if !ok || n < 0 || n > 63 {
			return p.invalid(explainErrors, -22, "portal '"+o.portal+"' is not within 0 to 63", "")
		}
		o.portal = fmt.Sprint(n)
	}
	nids, err := p.expandNIDs(ctx, operands[0], 1)
	if err != nil {
		return p.badList(explainErrors, err)
	}
	client := p.client()
	defer client.Close()
	e, err := client.Explain(ctx, nids[0].String(), o.source, o.portal)
	if err != nil {
		return p.refused(explainErrors, err)
	}
	if p.json {
		err = p.printJSON(e)
	} else {
		_, err = fmt.Fprint(p.stdout, explanation(&e, o.figures))
	}
	if err == nil && e.Path == nil {
		p.hint(cmp.Or(e.Remedy, "see the nets with: "+p.name+" net show, and the routes with: "+p.name+" route show -v"))
		err = status(exitFailure)
	}
	return err
}

// explanation formats an explanation for a terminal:
//
//	path  10.0.0.1@tcp -> 10.0.0.11@tcp
//	case  any NID of a multi-rail peer
//
//	1. NI
//	   > 10.0.0.1@tcp  NI health 1000, the next has 900
//	     10.0.0.2@tcp  NI health 900, the one above has 1000
//	   x 10.0.0.3@tcp  excluded: down
func explanation(e *api.Explanation, figures bool) string {
	var b strings.Builder
	fmt.Fprintln(&b, "path  "+pathText(e.Path))
	if e.Path == nil {
		fmt.Fprintln(&b, "why   "+e.Error)
	}
	if e.Case != "" {
		fmt.Fprintln(&b, "case  "+e.Case)
	}
	for i := range e.Steps {
		s := &e.Steps[i]
		fmt.Fprintf(&b, "\n%d. %s\n", i+1, s.What)
		stepTable(s, figures).write(&b, "   ")
	}
	return b.String()
}

func pathText(p *api.Path) string {
	switch {
	case p == nil:
		return "none"
	case p.To.IsLoopback():
		return lnet.LoopbackNID.String() + ", within the node"
	case !p.Gateway.IsZero():
		return p.From.String() + " -> " + p.Gateway.String() + " (gateway) -> " + p.To.String()
	default:
		return p.From.String() + " -> " + p.To.String()
	}
}

// Marks before the names of candidates: of the chosen one, of others that could have been chosen, and of
// excluded ones.
const (
	chosenMark   = ">"
	otherMark    = " "
	excludedMark = "x"
)

// stepTable returns a step of an explanation as a table. The columns are the mark, the name, the value of each
// criterion if figures is set, and the reason for the rank.
func stepTable(s *api.ExplainedStep, figures bool) table {
	var columns []string
	if figures {
		columns = criteria(s.Candidates)
	}
	var t table
	if len(columns) > 0 {
		t = append(t, header(columns)...)
	}
	line := func(mark, name string, figure func(criterion string) string, why string) {
		cells := []string{mark, name}
		for _, by := range columns {
			cells = append(cells, figure(by))
		}
		t = append(t, append(cells, why))
	}
	for k := range s.Candidates {
		c := &s.Candidates[k]
		mark := otherMark
		if k == 0 {
			mark = chosenMark
		}
		line(mark, c.Name, func(by string) string { return figureText(c, by) }, why(s.Candidates, k))
	}
	for _, x := range s.Excluded {
		line(excludedMark, x.Name, func(string) string { return "" }, "excluded: "+x.Why)
	}
	return t
}

// header returns two lines with the headings of columns. The second line has the last word of each heading.
func header(columns []string) table {
	upper, lower := []string{"", ""}, []string{"", ""}
	for _, name := range columns {
		cut := strings.LastIndexByte(name, ' ')
		upper = append(upper, name[:max(cut, 0)])
		lower = append(lower, name[cut+1:])
	}
	return table{append(upper, ""), append(lower, "why")}
}

// criteria returns the names of all criteria that apply to at least one of the candidates, the most important
// one first.
func criteria(candidates []api.RankedCandidate) []string {
	var all []string
	seen := map[string]bool{}
	for i := range candidates {
		at := 0 // where to insert a new criterion: after the one before it in this candidate
		for _, f := range candidates[i].Figures {
			if !seen[f.Criterion] {
				seen[f.Criterion] = true
				all = append(all[:at], append([]string{f.Criterion}, all[at:]...)...)
			}
			for k := range all {
				if all[k] == f.Criterion {
					at = k + 1
				}
			}
		}
	}
	return all
}

func figureText(c *api.RankedCandidate, criterion string) string {
	for _, f := range c.Figures {
		if f.Criterion == criterion {
			return f.Text
		}
	}
	return "-"
}

// why returns a text with the reason why candidate k has its rank among the candidates.
func why(candidates []api.RankedCandidate, k int) string {
	if len(candidates) == 1 {
		return "the only one"
	}
	other, who, at := k-1, "the one above", k
	if k == 0 {
		other, who, at = 1, "the next", 1
	}
	by := candidates[at].By
	switch {
	case by != api.ByOrder:
		return fmt.Sprintf("%s %s, %s has %s", by, figureText(&candidates[k], by), who, figureText(&candidates[other], by))
	case k == 0:
		return "equal to " + who + ", and first in order"
	default:
		return "equal to " + who + ", but later in order"
	}
}
