package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// waitUsage is the help of --wait.
const waitUsage = "have NIs wait for interfaces that cannot be used yet"

// ownErrors is the error form of commands that lnetctl does not have.
var ownErrors = errorForm{kind: ownText, exit: exitInvalid, explained: true}

const planExits = `0    success
1    help was asked for
234  the file has mistakes, or cannot be applied (-22)
254  the file cannot be read
255  there is no lnetd to talk to (-1)`

func (p *program) applyCommand() *cobra.Command {
	var o documentOptions
	r := api.ConfigurationChange{Mode: api.ModeReplace}
	c := command(manual{
		use:   "apply [--wait] [--dry-run] [--modprobe] [FILE]",
		short: "make the node what a configuration file says",
		long: `What the node has and FILE, or standard input, does not is taken away, what it
lacks is added, and what is different is changed, all of it or nothing: if a step
fails those before it are taken back. What does not change is not disturbed, and
peers that discovery has found are left to it. A key that is not in FILE gets its
default, whatever was set before: also in "global" and in the section "lnetd",
except for ports, "accept" and "source_ports". "import" leaves such keys alone. "plan" prints the steps
beforehand, as does --dry-run.

An NI whose interface is not there, or has no address, is refused, as is one of a net
that lnetd has no driver for; with --wait the first comes up when that can be, and
the other stays down, for an lnetd that has the driver.`,
		example: `lnetdctl apply lnet.yaml
lnetdctl apply --dry-run /etc/lnet.conf
lnetdctl apply --wait site.yaml`,
		exits: planExits,
	}, func(ctx context.Context, operands []string) error {
		d, err := p.readDocument(o, operands)
		if err != nil {
			return err
		}
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
	c.Flags().BoolVarP(&r.Dry, "dry-run", "n", false, "print the steps, and change nothing")
	o.flags(c.Flags())
	return c
}

// planOptions are the options of plan and diff.
type planOptions struct {
	documentOptions
	add, del bool
}

func (o *planOptions) flags(c *cobra.Command) {
	c.Flags().BoolVarP(&o.add, "add", "a", false, "what \"import\" would do, not \"apply\"")
	c.Flags().BoolVarP(&o.del, "del", "d", false, "what \"import --del\" would do")
	o.documentOptions.flags(c.Flags())
}

// plan returns the changes that a file would make.
func (p *program) plan(ctx context.Context, o planOptions, operands []string) (api.ConfigurationChanged, error) {
	r := api.ConfigurationChange{Mode: api.ModeReplace, Dry: true, Wait: true}
	switch {
	case o.add && o.del:
		return api.ConfigurationChanged{}, p.invalid(ownErrors, -22, "--add and --del exclude each other", "")
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
		short: "print the commands that would do what a file does",
		long: `The commands are those by which "apply" would make the node what FILE, or
standard input, says, in their order; with --add those of "import", with --del
those of "import --del". Nothing is printed if there is nothing to do.`,
		example: "lnetdctl plan lnet.yaml\nlnetdctl plan --add --modprobe /etc/modprobe.d/lustre.conf",
		exits:   planExits,
	}, func(ctx context.Context, operands []string) error {
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
		long: `The difference, as diff -u prints it, is that between "export --backup", without
peers that discovery has found, before and after "apply FILE"; with --add after
"import", with --del after "import --del".`,
		example: "lnetdctl diff lnet.yaml\nlnetdctl diff --del more.yaml",
		exits: `0    there is no difference
1    there is one, or help was asked for
234  the file has mistakes, or cannot be applied (-22)
254  the file cannot be read
255  there is no lnetd to talk to (-1)`,
	}, func(ctx context.Context, operands []string) error { return p.diff(ctx, o, operands) })
	o.flags(c)
	return c
}

// exitDifferent means that there are differences, as for diff(1).
const exitDifferent = 1

func (p *program) diff(ctx context.Context, o planOptions, operands []string) error {
	done, err := p.plan(ctx, o, operands)
	if err != nil {
		return err
	}
	var before, after bytes.Buffer
	if err := writeBackup(&before, &done.Before); err != nil {
		return err
	}
	if err := writeBackup(&after, &done.After); err != nil {
		return err
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
