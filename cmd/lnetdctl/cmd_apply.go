package main

import (
	"bytes"
	"context"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// waitUsage is the help text of the option --wait.
const waitUsage = "let NIs wait for interfaces that cannot be used yet"

// ownErrors is the form of the errors of commands that lnetctl does not have.
var ownErrors = errorForm{kind: ownText, exit: exitInvalid, explained: true}

const planExits = `0    success
1    help was requested
234  the file has errors, or cannot be applied (-22)
254  the file cannot be read
255  lnetd does not answer (-1)`

func (p *program) applyCommand() *cobra.Command {
	var o documentOptions
	r := api.ConfigurationChange{Mode: api.ModeReplace}
	c := command(manual{
		use:   "apply [--wait] [--dry-run] [--modprobe] [FILE]",
		short: "make the node match a configuration file",
		long: `Reads FILE, or standard input, and compares it with the node. Objects that are not in
FILE are deleted, missing ones are added, and different ones are changed. All steps are
done or none: if a step fails, the steps before it are undone. Objects that do not
change are not disturbed. Peers that discovery has found are kept.

A key that is not in FILE gets its default, even if it was set before. This includes
"global" and the section "lnetd", except for ports, "accept" and "source_ports";
"import" leaves such keys alone. "plan" and --dry-run print the steps in advance.

An NI is refused if its interface does not exist or has no address, or if lnetd has no
driver for its net. With --wait such an NI is accepted: it comes up when its interface
can be used, or stays down until an lnetd with the driver runs.`,
		example: `lnetdctl apply lnet.yaml
lnetdctl apply --dry-run /etc/lnet.conf
lnetdctl apply --wait site.yaml`,
		exits: planExits,
	}, func(ctx context.Context, operands []string) error {
		d, err := p.readDocument(o, operands)
		if err != nil {
			return err
		}
		r.Minimal = !p.json
		done, err := p.changeBy(ctx, ownErrors, &d, r)
		switch {
		case err != nil:
			return err
		case p.json:
			return p.printJSON(done)
		case r.Dry:
			p.printCommands(done.Commands)
		}
		return nil
	})
	c.Flags().BoolVarP(&r.Wait, "wait", "w", false, waitUsage)
	c.Flags().BoolVarP(&r.Dry, "dry-run", "n", false, "print the steps, but change nothing")
	o.flags(c.Flags())
	return c
}

// planOptions holds the options of the commands "plan" and "diff".
type planOptions struct {
	documentOptions
	add, del bool
	// minimal is set if the configurations before and after the change are not needed.
	minimal bool
}

func (o *planOptions) flags(c *cobra.Command) {
	c.Flags().BoolVarP(&o.add, "add", "a", false, "show the effect of \"import\" instead of \"apply\"")
	c.Flags().BoolVarP(&o.del, "del", "d", false, "show the effect of \"import --del\" instead of \"apply\"")
	o.documentOptions.flags(c.Flags())
}

// plan returns the changes that a file would make to the configuration. If it returns an error, it has printed
// it.
func (p *program) plan(ctx context.Context, o planOptions, operands []string) (api.ConfigurationChanged, error) {
	r := api.ConfigurationChange{Mode: api.ModeReplace, Dry: true, Wait: true, Minimal: o.minimal}
	switch {
	case o.add && o.del:
		return api.ConfigurationChanged{}, p.invalid(ownErrors, -22, "--add and --del cannot be combined", "")
	case o.add:
		r.Mode = api.ModeAdd
	case o.del:
		r.Mode = api.ModeDelete
	}
	d, err := p.readDocument(o.documentOptions, operands)
	if err != nil {
		return api.ConfigurationChanged{}, err
	}
	return p.changeBy(ctx, ownErrors, &d, r)
}

func (p *program) planCommand() *cobra.Command {
	var o planOptions
	c := command(manual{
		use:   "plan [--add | --del] [--modprobe] [FILE]",
		short: "print the commands that have the effect of a file",
		long: `Prints, in order, the commands that have the same effect as "apply FILE"; with --add as
"import FILE", with --del as "import --del FILE". Without FILE, standard input is read.
Nothing is printed if nothing would change.`,
		example: "lnetdctl plan lnet.yaml\nlnetdctl plan --add --modprobe /etc/modprobe.d/lustre.conf",
		exits:   planExits,
	}, func(ctx context.Context, operands []string) error {
		o.minimal = !p.json
		done, err := p.plan(ctx, o, operands)
		switch {
		case err != nil:
			return err
		case p.json:
			return p.printJSON(done)
		}
		p.printCommands(done.Commands)
		return nil
	})
	o.flags(c)
	return c
}

func (p *program) printCommands(commands []string) {
	for _, c := range commands {
		if !strings.HasPrefix(c, "#") { // a change that no command can make
			c = p.name + " " + c
		}
		fmt.Fprintln(p.stdout, c)
	}
	if len(commands) == 0 {
		p.hint("there is nothing to change")
	}
}

func (p *program) diffCommand() *cobra.Command {
	var o planOptions
	c := command(manual{
		use:   "diff [--add | --del] [--modprobe] [FILE]",
		short: "print how a file would change the configuration",
		long: `Prints, in the format of diff -u, how the output of "export --backup" would change by
"apply FILE"; with --add by "import FILE", with --del by "import --del FILE". Peers that
discovery has found are left out.`,
		example: "lnetdctl diff lnet.yaml\nlnetdctl diff --del more.yaml",
		exits: `0    no difference
1    a difference, or help was requested
234  the file has errors, or cannot be applied (-22)
254  the file cannot be read
255  lnetd does not answer (-1)`,
	}, func(ctx context.Context, operands []string) error { return p.diff(ctx, o, operands) })
	o.flags(c)
	return c
}

// exitDifferent is the exit status of "diff" if there are differences, as that of diff(1).
const exitDifferent = 1

// diffCollectPercent is the percentage by which the heap may grow between collections while configurations are
// compared. Their texts and the comparison need much memory at the same time: for 100,000 peers 130 MB instead of
// 180, and 1.0 s of processor time instead of 0.7.
const diffCollectPercent = 25

func (p *program) diff(ctx context.Context, o planOptions, operands []string) error {
	defer debug.SetGCPercent(debug.SetGCPercent(diffCollectPercent))
	done, err := p.plan(ctx, o, operands)
	if err != nil {
		return err
	}
	var before, after bytes.Buffer
	for _, one := range []struct {
		text *bytes.Buffer
		of   *api.Configuration
	}{{&before, &done.Before}, {&after, &done.After}} {
		if err := writeBackup(one.text, one.of, backupConfiguredPeers(one.of.Peers)); err != nil {
			return err
		}
		if !p.json {
			one.of.Peers = nil // they may take much memory, which the comparison needs too
		}
	}
	if p.json {
		err = p.printJSON(done)
	} else {
		_, err = p.stdout.Write(diff.Diff("now", before.Bytes(), "then", after.Bytes()))
	}
	if err == nil && !bytes.Equal(before.Bytes(), after.Bytes()) {
		return status(exitDifferent)
	}
	return err
}
