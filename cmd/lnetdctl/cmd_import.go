package main

import (
	"context"
	"iter"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
)

func importErrors(op string) errorForm { return errorForm{op: op, entity: "import", explained: true} }

// importOptions holds the options of the command "import".
type importOptions struct {
	documentOptions
	add, del, show, exec, oldAPI, wait bool
}

func (p *program) importCommand() *cobra.Command {
	var o importOptions
	c := command(manual{
		use:   "import [--add | --del | --show | --exec] [--wait] [--modprobe] [FILE]",
		short: "add or delete the objects of a configuration file",
		long: `Reads FILE, or standard input: YAML in the format of "export", of any release. The whole
file is checked first, and every error is reported with its line and column. Then all
changes are made, or none. Objects that already exist are not changed. "plan" shows in
advance what a file would change; "apply" makes the node match a file.

An NI is refused if its interface does not exist or has no address, or if lnetd has no
driver for its net. With --wait such an NI is accepted: it comes up when its interface
can be used, or stays down until an lnetd with the driver runs.

With --del, the NIs, routes, peers and policies in the file are deleted. If the file
has the parameters numa_range, max_interfaces, discovery or buffers, they get their
defaults; "routing" is switched off; other parameters do not change, as with lnetctl.

With --show, the nets, peers and routes in the file are printed; "detail: LEVEL" in a
block sets the level of detail. With --exec, only the blocks "ping" and "discover" are
executed.

A block may have a number, "seq_no: N", which appears in errors about the block.

With --modprobe, FILE is in the format of /etc/modprobe.d. The options of lnet, ksocklnd,
ko2iblnd and lnet_selftest are added with the same meaning as in the kernel modules.
Options that lnetd does not use are listed. A misspelled option is an error, and so is a
file without any option for lnetd.`,
		example: `lnetdctl import lnet.yaml
lnetdctl import --wait site.yaml
lnetdctl import --del more.yaml
lnetdctl import --modprobe /etc/modprobe.d/lustre.conf
lnetdctl import --show net.yaml
lnetdctl import --exec pings.yaml`,
		exits: `0    success
1    help was requested
234  the file has errors, or cannot be applied; nothing has changed (-22)
254  the file cannot be read
255  a ping failed, or lnetd does not answer (-1)`,
	}, func(ctx context.Context, operands []string) error { return p.importFile(ctx, o, operands) })
	f := c.Flags()
	f.BoolVarP(&o.add, "add", "a", false, "add everything in the file (default)")
	f.BoolVarP(&o.del, "del", "d", false, "delete everything in the file")
	f.BoolVarP(&o.show, "show", "s", false, "print the objects in the file as they are on the node")
	f.BoolVarP(&o.exec, "exec", "e", false, "execute the blocks \"ping\" and \"discover\" of the file")
	f.BoolVarP(&o.wait, "wait", "w", false, waitUsage)
	o.documentOptions.flags(f)
	f.BoolVarP(&o.oldAPI, "old-api", "o", false, "has no effect (accepted for compatibility with lnetctl)")
	return c
}

func (p *program) importFile(ctx context.Context, o importOptions, operands []string) error {
	if moreThanOne(o.add, o.del, o.show, o.exec) {
		return p.invalid(importErrors("add"), -22, "--add, --del, --show and --exec cannot be combined", "")
	}
	d, err := p.readDocument(o.documentOptions, operands)
	if err != nil {
		return err
	}
	switch {
	case o.show:
		return p.importShow(ctx, &d)
	case o.exec:
		return p.importExec(ctx, &d)
	}
	r, form := api.ConfigurationChange{Mode: api.ModeAdd, Wait: o.wait, Minimal: !p.json}, importErrors("add")
	if o.del {
		r.Mode, form = api.ModeDelete, importErrors("del")
	}
	done, err := p.changeBy(ctx, form, &d, r)
	if err == nil && p.json {
		return p.printJSON(done)
	}
	return err
}

func moreThanOne(options ...bool) bool {
	n := 0
	for _, given := range options {
		if given {
			n++
		}
	}
	return n > 1
}

// maxDetail is the verbosity level that prints all fields.
const maxDetail = 4

// importShow prints the current state of the entries in a document (lnetctl 7.5).
func (p *program) importShow(ctx context.Context, d *document) error {
	c := p.client()
	defer c.Close()
	var found api.Described
	var peers iter.Seq2[api.Peer, error]
	var err error
	if !d.wrong {
		found, peers, err = c.Described(ctx, d.Document)
		d.Text = "" // it may be large
	}
	if err := d.judged(found.Warnings, err); err != nil {
		return p.refused(importErrors("show"), err)
	}
	if p.json {
		err = p.printDescribed(&found, peers)
	} else {
		err = p.showDescribed(&found, peers)
	}
	return p.unlisted(importErrors("show"), err)
}

// printDescribed prints the entries of a document as JSON.
func (p *program) printDescribed(found *api.Described, peers iter.Seq2[api.Peer, error]) error {
	o := jsonObject{out: p.stdout}
	err := o.members(found)
	if err == nil {
		err = jsonList(&o, "peers", peers)
	}
	if err != nil {
		return err
	}
	return o.end()
}

// showDescribed prints the entries of a document in the form of the commands that show them.
func (p *program) showDescribed(found *api.Described, peers iter.Seq2[api.Peer, error]) error {
	for k := range found.Warnings {
		p.warn(found.Warnings[k].Error())
	}
	level := func(name string, usual int64) int64 {
		if n, ok := found.Details[name]; ok {
			return min(n, maxDetail)
		}
		return usual
	}
	var nets sequence
	for k := range found.Nets {
		nets = append(nets, netItem(&found.Nets[k], level(found.Nets[k].Net.String(), maxDetail)))
	}
	if err := wide.write(p.stdout, append(section("net", nets), routesDocument(found.Routes, level("route", 1))...)); err != nil {
		return err
	}
	list := listing{layout: wide, key: "peer", out: p.stdout}
	if err := list.all(mapped(peers, func(peer *api.Peer) mapping {
		return peerDocument(peer, level(peer.Primary.String(), maxDetail))
	})); err != nil {
		return err
	}
	var rest mapping
	if found.Routing != nil {
		rest = append(rest, routingDocument(*found.Routing)...)
	}
	if found.Globals != nil {
		rest = append(rest, globalsDocument(*found.Globals)...)
	}
	rest = append(rest, rulesDocument(found.UDSP)...)
	return classic.write(p.stdout, append(rest, selectionDocument(found.Selection)...))
}

// importExec executes the pings and discoveries that a document requests, and prints the results. It continues
// after one that fails (lnetctl 7.6).
func (p *program) importExec(ctx context.Context, d *document) error {
	var errands []api.Errand
	err := p.tell(importErrors("manage"), func(c *client.Client) (err error) {
		if !d.wrong {
			errands, err = c.Errands(ctx, d.Document)
		}
		return d.judged(nil, err)
	})
	if err != nil {
		return err
	}
	var failed error
	for _, e := range errands {
		if e.Ping != nil {
			form := pingErrors
			form.seqNo = e.SeqNo
			err = p.pingTargets(ctx, form, *e.Ping, e.Ping.NIDs)
		} else {
			form := discoverErrors
			form.seqNo = e.SeqNo
			err = p.discoverTargets(ctx, form, e.Discover.Force, e.Discover.NIDs)
		}
		if err != nil {
			failed = err
		}
	}
	return failed
}
