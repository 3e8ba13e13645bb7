package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/lnetd/lnetd/internal/load/perf"
)

// portsOfArm is the number of ports that one of the two measured variants uses: one for its nodes, and one for
// the plain TCP server.
const portsOfArm = 2

// settings parses the SETTING=VALUE arguments of an option.
func settings(option string, given []string) (list []perf.Setting, err error) {
	for _, text := range given {
		s, err := perf.ParseSetting(text)
		if err != nil {
			return nil, usage("%s: %w", option, err)
		}
		list = append(list, s)
	}
	return list, nil
}

// measureAgainst performs "compare --against" and "compare --baseline": it measures two variants alternately,
// and prints the comparison. For each variant it starts an active process, which starts a passive one.
func (p *program) measureAgainst(ctx context.Context, o *compareOptions) (err error) {
	changed, err := settings("--against", o.against)
	if err != nil {
		return err
	}
	without, with := *o, *o
	with.Port += portsOfArm
	var env []string
	for _, s := range changed {
		if s.Variable() {
			env = append(env, s.String())
		} else {
			with.Settings = append(with.Settings[:len(with.Settings):len(with.Settings)], s)
		}
	}
	setting := strings.Join(o.against, " ")
	kind, head, rows := "against", [2]string{"without", setting}, [2]string{"without", "with"}
	if o.base != "" {
		without.program = o.base
		kind, setting, rows = "baseline", o.base, [2]string{"baseline", "this one"}
		head = rows
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var arms [2]*perf.Process
	for k, arm := range []*compareOptions{&without, &with} {
		c, err := p.startProcess(ctx, arm, cancel, nil, env[:k*len(env)], "--perform")
		if err != nil {
			return fmt.Errorf("%s: %w", rows[k], err)
		}
		defer func() { err = errors.Join(err, c.end()) }()
		arms[k] = c.talk()
	}
	list, err := perf.ComparePaired(ctx, o.Config, arms[0], arms[1], func(r *perf.Comparison) { p.caseDone(r.Case) })
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(map[string]any{"method": perf.How(), "machine": perf.Machine(), kind: setting, "cases": list})
	}
	if err := perf.PrintAgainst(p.stdout, head, rows, list); err != nil {
		return err
	}
	p.printMethod()
	return nil
}
