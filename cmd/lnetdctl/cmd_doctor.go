package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/diagnosis"
	"github.com/lnetd/lnetd/internal/lnetd/doctor"
	"github.com/lnetd/lnetd/lnet"
)

// doctorOptions holds the options of the command "doctor".
type doctorOptions struct {
	config, timeout, watch string
}

var doctorErrors = errorForm{kind: ownText, explained: true}

// Exit statuses of "doctor" and "status".
const (
	exitWarnings status = 1
	exitErrors   status = 2
)

const doctorExits = `0    nothing is wrong, or there are only notices
1    there are warnings
2    there are errors
234  an argument is invalid, or a request was refused (-22)`

const (
	// doctorTimeout is the default timeout of pings and probes in seconds.
	doctorTimeout = 5
	// watchInterval is the default number of seconds between two examinations with --watch.
	watchInterval = 5
)

func (p *program) doctorCommand() *cobra.Command {
	var o doctorOptions
	c := command(manual{
		use:   "doctor [--timeout SECONDS] [--watch [SECONDS]] [--config FILE] [NID]",
		short: "find out what is wrong with this node, or with a peer, and what to do",
		long: `Examines lnetd, its NIs, peers, routes and clients, and this host. With NID it also
examines the path to that node: it pings the node and its other NIDs, discovers it,
connects to its port, sends small and large packets to its host, and asks which hosts
have its address.

Each finding has a code, such as LNET203, with the evidence, a remedy and the address of
a page that explains it. Nothing is printed except "no findings" if nothing is wrong.
Lines that begin with "not examined" say what could not be examined, and why.

If lnetd is not running, the command checks with the program lnetd and the configuration
file whether it could start, and what would prevent it.`,
		example: `lnetdctl doctor
lnetdctl doctor 10.0.0.1@tcp
lnetdctl doctor --watch 10 --json`,
		exits: doctorExits,
		helps: true,
	}, func(ctx context.Context, operands []string) error { return p.doctor(ctx, o, operands) })
	f := c.Flags()
	f.StringVarP(&o.timeout, "timeout", "t", "", fmt.Sprintf("wait `SECONDS` for each ping and probe (default %d)", doctorTimeout))
	f.StringVarP(&o.watch, "watch", "w", "", fmt.Sprintf("examine every `SECONDS` (default %d) and print findings that begin or end", watchInterval))
	w := f.Lookup("watch")
	w.NoOptDefVal = fmt.Sprint(watchInterval)
	w.Annotations = map[string][]string{optionalLevel: nil}
	f.StringVarP(&o.config, "config", "c", "", "`FILE` to check if lnetd is not running (default "+doctor.DefaultConfig+")")
	return c
}

func (p *program) doctor(ctx context.Context, o doctorOptions, operands []string) error {
	if len(operands) > 1 {
		return needsHelp{exitInvalid}
	}
	timeout, err := secondsOf("timeout", o.timeout, doctorTimeout)
	if err != nil {
		return err
	}
	interval, err := secondsOf("watch", o.watch, 0)
	if err != nil {
		return err
	}
	var nid lnet.NID
	if len(operands) == 1 {
		nids, err := p.expandNIDs(ctx, operands[0], 1)
		if err != nil {
			return p.badList(doctorErrors, err)
		}
		nid = nids[0]
	}
	client := p.client()
	defer client.Close()
	d := &doctor.Doctor{Client: client, Config: o.config, Timeout: timeout, AskHosts: true}
	if interval > 0 {
		return p.watchDoctor(ctx, d, nid, interval)
	}
	f, err := d.Collect(ctx, nid)
	if err != nil {
		return p.refused(doctorErrors, err)
	}
	if o.config != "" && !f.NotRunning() {
		p.warn("--config has no effect, because lnetd is running")
	}
	findings := diagnosis.Examine(f)
	if p.json {
		err = p.printJSON(examination{Findings: findings, Skipped: diagnosis.Skipped(f)})
	} else {
		writeFindings(p.stdout, findings)
		writeSkipped(p.stdout, diagnosis.Skipped(f))
	}
	return cmp.Or(err, severityStatus(findings))
}

// secondsOf parses the value of an option, a whole number of seconds from 1 to a day. An empty value means the
// default.
func secondsOf(option, given string, otherwise int64) (time.Duration, error) {
	n := otherwise
	if given != "" {
		const most = 24 * 60 * 60
		v, ok := parseNumber(given)
		if !ok || v < 1 || v > most {
			return 0, fmt.Errorf("option '--%s': '%s' is not a number of seconds from 1 to %d", option, given, most)
		}
		n = v
	}
	return time.Duration(n) * time.Second, nil
}

// examination is what "doctor --json" prints.
type examination struct {
	// Time is the time of the examination. It is only set with --watch.
	Time     time.Time           `json:"time,omitzero"`
	Findings []diagnosis.Finding `json:"findings"`
	Skipped  []diagnosis.Skip    `json:"skipped"`
}

// severityStatus returns the exit status for findings, or nil if it is 0.
func severityStatus(findings []diagnosis.Finding) error {
	switch diagnosis.Worst(findings) {
	case diagnosis.Error:
		return exitErrors
	case diagnosis.Warning:
		return exitWarnings
	}
	return nil
}

// watchDoctor examines again and again until ctx is done. It prints findings that begin or end, or with --json all
// findings of each examination on one line.
func (p *program) watchDoctor(ctx context.Context, d *doctor.Doctor, nid lnet.NID, interval time.Duration) error {
	var last []diagnosis.Finding
	for first := true; ; first = false {
		f, err := d.Collect(ctx, nid)
		if err != nil {
			return p.refused(doctorErrors, err)
		}
		now, findings := time.Now().Truncate(time.Second), diagnosis.Examine(f)
		if p.json {
			err = p.printJSONLine(examination{Time: now, Findings: findings, Skipped: diagnosis.Skipped(f)})
		} else {
			_, err = io.WriteString(p.stdout, changesText(now, last, findings, first))
		}
		if err != nil {
			return err
		}
		last = findings
		if err := p.wait(ctx, interval); err != nil {
			return err
		}
	}
}

// changesText describes which findings have begun and which have ended since the last examination. The first
// examination is described even if there are none.
func changesText(now time.Time, last, findings []diagnosis.Finding, first bool) string {
	var b strings.Builder
	at := now.Format(time.TimeOnly)
	in := func(all []diagnosis.Finding, f *diagnosis.Finding) bool {
		return slices.ContainsFunc(all, func(o diagnosis.Finding) bool { return o.Code == f.Code && o.Subject == f.Subject })
	}
	for k := range last {
		if f := &last[k]; !in(findings, f) {
			fmt.Fprintf(&b, "%s ended: %s %s: %s\n", at, f.Code, f.Title, oneLine(f.Subject))
		}
	}
	var begun []diagnosis.Finding
	for k := range findings {
		if !in(last, &findings[k]) {
			begun = append(begun, findings[k])
		}
	}
	switch {
	case len(begun) > 0:
		fmt.Fprintf(&b, "%s found:\n", at)
		writeFindings(&b, begun)
	case first, len(findings) == 0 && len(last) > 0:
		fmt.Fprintf(&b, "%s no findings\n", at)
	}
	return b.String()
}

// writeFindings prints findings for a terminal:
//
//	error LNET106 a port is in use: 10.0.0.1:988
//	  evidence: ...
//	  remedy:   ...
//	  page:     ...
func writeFindings(w io.Writer, findings []diagnosis.Finding) {
	if len(findings) == 0 {
		fmt.Fprintln(w, "no findings")
	}
	for k := range findings {
		f := &findings[k]
		fmt.Fprintf(w, "%s %s %s: %s\n", f.Severity, f.Code, f.Title, oneLine(f.Subject))
		fmt.Fprintf(w, "  evidence: %s\n  remedy:   %s\n  page:     %s\n", oneLine(f.Evidence), oneLine(f.Remedy), f.Page)
	}
}

// writeSkipped prints what could not be examined.
func writeSkipped(w io.Writer, skipped []diagnosis.Skip) {
	for _, s := range skipped {
		fmt.Fprintf(w, "not examined: %s: %s\n", s.Check, oneLine(s.Reason))
	}
}

// oneLine returns a text with its lines joined, quoted if it has characters that could change the terminal.
func oneLine(s string) string { return printableText(strings.Join(strings.Fields(s), " ")) }
