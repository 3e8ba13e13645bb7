package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
)

func importErrors(op string) errorForm { return errorForm{op: op, entity: "import", explained: true} }

// importOptions are the options of import.
type importOptions struct {
	documentOptions
	add, del, show, exec, oldAPI, wait bool
}

func (p *program) importCommand() *cobra.Command {
	var o importOptions
	c := command(manual{
		use:   "import [--add | --del | --show | --exec] [--wait] [--modprobe] [FILE]",
		short: "add what a configuration file has, take it away, show it, or run its pings",
		long: `FILE, or standard input, is YAML as "export" prints it, of any release. It is read
whole first, and every mistake in it is named with its line and column; then all
of it is done, or nothing. What is there already stays as it is. See "plan" for
what a file would change, and "apply" to make the node what a file says.

An NI whose interface is not there, or has no address, is refused, as is one of a net
that lnetd has no driver for; with --wait the first comes up when that can be, and
the other stays down, for an lnetd that has the driver.

With --del NIs, routes, peers and policies go that the file names. Of the parameters
that it names, as with lnetctl, numa_range, max_interfaces and discovery get their
defaults and the others stay; routing ends, and buffers get their defaults. With --show
those are printed that it names, each net and peer, and the routes, at the level that
"detail: LEVEL" in a block asks for; with --exec its blocks "ping" and "discover" are carried
out, and no others.

A block may have a number, "seq_no: N": errors about the block have it, too.

With --modprobe FILE is one of /etc/modprobe.d: the options of lnet, ksocklnd, ko2iblnd
and lnet_selftest are added with the meaning that they have for kernels. Those that lnetd
has no use for are named. A misspelled name, and a file without any option for lnetd,
are mistakes.`,
		example: `lnetdctl import lnet.yaml
lnetdctl import --wait site.yaml
lnetdctl import --del more.yaml
lnetdctl import --modprobe /etc/modprobe.d/lustre.conf
lnetdctl import --show net.yaml
lnetdctl import --exec pings.yaml`,
		exits: `0    success
1    help was asked for
234  the file has mistakes, or cannot be applied: nothing has changed (-22)
254  the file cannot be read
255  a ping failed, or there is no lnetd to talk to (-1)`,
	}, func(ctx context.Context, operands []string) error { return p.importFile(ctx, o, operands) })
	f := c.Flags()
	f.BoolVarP(&o.add, "add", "a", false, "add what the file has; so it is without an option")
	f.BoolVarP(&o.del, "del", "d", false, "delete what the file has")
	f.BoolVarP(&o.show, "show", "s", false, "print what the node has of it")
	f.BoolVarP(&o.exec, "exec", "e", false, "carry out its pings and discoveries")
	f.BoolVarP(&o.wait, "wait", "w", false, waitUsage)
	o.documentOptions.flags(f)
	f.BoolVarP(&o.oldAPI, "old-api", "o", false, "without effect: there is one way to read a file")
	return c
}

func (p *program) importFile(ctx context.Context, o importOptions, operands []string) error {
	if moreThanOne(o.add, o.del, o.show, o.exec) {
		return p.invalid(importErrors("add"), -22, "--add, --del, --show and --exec exclude each other", "")
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
	r, form := api.ConfigurationChange{Mode: api.ModeAdd, Wait: o.wait}, importErrors("add")
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
	var found api.Described
	err := p.tell(importErrors("show"), func(c *client.Client) (err error) {
		if !d.wrong {
			found, err = c.Described(ctx, d.Document)
		}
		return d.judged(nil, err)
	})
	switch {
	case err != nil:
		return err
	case p.json:
		return p.printJSON(found)
	}
	level := func(name string, usual int64) int64 {
		if n, ok := found.Details[name]; ok {
			return min(n, maxDetail)
		}
		return usual
	}
	var nets, peers sequence
	for k := range found.Nets {
		nets = append(nets, netItem(&found.Nets[k], level(found.Nets[k].Net.String(), maxDetail)))
	}
	for k := range found.Peers {
		peers = append(peers, peerDocument(&found.Peers[k], level(found.Peers[k].Primary.String(), maxDetail)))
	}
	document := append(section("net", nets), routesDocument(found.Routes, level("route", 1))...)
	if err := wide.write(p.stdout, append(document, section("peer", peers)...)); err != nil {
		return err
	}
	var rest mapping
	if found.Routing != nil {
		rest = append(rest, routingDocument(*found.Routing)...)
	}
	if found.Globals != nil {
		rest = append(rest, globalsDocument(*found.Globals)...)
	}
	return classic.write(p.stdout, append(rest, rulesDocument(found.UDSP)...))
}

// importExec runs the pings and discoveries of a document. It continues after one that fails
// (lnetctl 7.6).
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
