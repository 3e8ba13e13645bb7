package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
)

func (p *program) exportCommand() *cobra.Command {
	var backup bool
	c := command(manual{
		use:   "export [--backup] [FILE]",
		short: "print the configuration, with or without the current state",
		long: `With --backup it prints only what "import" and "apply" need to configure a node like
this one. Otherwise it also prints statistics, health and states, which "import" and
"apply" ignore. A backup includes peers that discovery has found, but not peers that
have never answered. FILE is replaced only after everything is written.

Nets and NIs are printed in the order in which they were configured, because the first
NI has the primary NID. Routes are ordered by net and gateway. Peers are printed in the
order in which they became known; for peers of the configuration file this is the order
of the file. The NIDs of each peer begin with its primary NID and the others on that net.`,
		example: `lnetdctl export --backup lnet.yaml
lnetdctl export --json`,
		exits: `0    success
1    help was requested
234  a request was refused: the output is incomplete (-22)
255  FILE cannot be written, or lnetd does not answer (-1)`,
	}, func(ctx context.Context, operands []string) error {
		return p.toFile(operands, func() error {
			if backup {
				return p.exportBackup(ctx)
			}
			return p.exportAll(ctx)
		})
	})
	c.Flags().BoolVarP(&backup, "backup", "b", false, "print what is needed to configure a node like this one")
	return c
}

// toFile calls do. If there is an operand, it names a file, and the output of do goes to that file.
func (p *program) toFile(operands []string, do func() error) error {
	if len(operands) > 1 {
		return fmt.Errorf("unexpected operand '%s'", operands[1])
	}
	if len(operands) == 0 {
		return do()
	}
	f, err := replacing(operands[0])
	if err != nil {
		return p.badFile(operands[0], err, exitFailure)
	}
	stdout := p.stdout
	p.stdout = f
	err = do()
	p.stdout = stdout
	if err == nil {
		err = f.keep()
	} else {
		f.drop()
	}
	_, unwritten := errors.AsType[*os.PathError](err)
	_, unplaced := errors.AsType[*os.LinkError](err)
	if unwritten || unplaced {
		return p.badFile(operands[0], err, exitFailure)
	}
	return err
}

// badFile prints an error of opening, reading or writing a file (lnetctl 7), and returns the exit status.
func (p *program) badFile(name string, err error, exit status) error {
	remedy := api.FullDisk("'"+name+"'", err)
	if remedy != "" {
		remedy += ", or name a file in another directory"
	}
	var path *os.PathError
	var link *os.LinkError
	cannot := "open"
	switch {
	case errors.As(err, &link):
		err, cannot = link.Err, "write"
	case errors.As(err, &path):
		err = path.Err
		if path.Op == "write" || path.Op == "sync" || path.Op == "close" {
			cannot = "write"
		}
	}
	return p.invalid(errorForm{kind: oldDocument, op: "yaml", entity: "builder", exit: exit}, -1,
		fmt.Sprintf("cannot %s '%s': %s", cannot, name, api.Strerror(api.Errno(err))), remedy)
}

// exportErrors returns the form of the errors about a part of an export.
func exportErrors(part string) errorForm { return errorForm{op: "show", entity: part} }

// exportAll prints all parts of an export, each as the command for that part prints it (lnetctl 8.1). If a part
// cannot be read, exportAll prints an error on stderr and continues with the others.
func (p *program) exportAll(ctx context.Context) error {
	if p.json {
		return p.exportAllJSON(ctx)
	}
	c := p.client()
	defer c.Close()
	e := exporting{p: p}
	nets, err := allNets(ctx, c)
	withoutReasons(nets)
	e.part("net", err, wide, func() mapping { return netDocument(nets, 2) })
	routes, err := c.Routes(ctx, api.AllRoutes)
	e.part("route", err, wide, func() mapping { return routesDocument(routes, 1) })
	e.peers(ctx, c, 3)
	routing, err := c.Routing(ctx)
	e.part("routing", err, classic, func() mapping { return routingDocument(routing) })
	globals, err := c.Globals(ctx)
	e.part("global", err, classic, func() mapping { return globalsDocument(globals) })
	rules, err := c.UDSP(ctx, "")
	e.part("udsp", err, classic, func() mapping { return rulesDocument(rules) })
	all, err := c.Configuration(ctx)
	e.part("selection", err, classic, func() mapping { return lnetdDocument(all.Selection, all.Lnetd) })
	return e.err
}

// allNets returns the nets including NIs that wait for their interfaces. These are in their places in the order
// of NIs, as NIs that are down, so that an import creates them too.
func allNets(ctx context.Context, c *client.Client) ([]api.Net, error) {
	all, err := c.NetsAndWaiting(ctx, "")
	if len(all.Waiting) == 0 {
		return all.Nets, err
	}
	var lo, list []api.Net // 0@lo and the other NIs, each as a net with one NI
	for _, n := range all.Nets {
		for _, ni := range n.NIs {
			if one := (api.Net{Net: n.Net, NIs: []api.NI{ni}}); ni.NID.IsLoopback() {
				lo = append(lo, one)
			} else {
				list = append(list, one)
			}
		}
	}
	for _, w := range all.Waiting { // ordered by Place
		list = slices.Insert(list, min(w.Place, len(list)), api.Net{Net: w.Net, NIs: []api.NI{w.NI()}})
	}
	var nets []api.Net
	for _, one := range append(lo, list...) {
		k := slices.IndexFunc(nets, func(n api.Net) bool { return n.Net == one.Net })
		if k < 0 {
			nets = append(nets, one)
			continue
		}
		nets[k].NIs = append(nets[k].NIs, one.NIs...)
	}
	return nets, err
}

// withoutReasons removes from NIs the reasons why they are down, because lnetctl does not print these and an
// import cannot set them.
func withoutReasons(nets []api.Net) {
	for k := range nets {
		for i := range nets[k].NIs {
			nets[k].NIs[i].Reason = ""
		}
	}
}

// exporting is an export in progress. The field err is the last error, which has been printed.
type exporting struct {
	p   *program
	err error
}

// part prints one part of the export. If err, the error of reading the part, is not nil, it prints that
// instead.
func (e *exporting) part(name string, err error, l layout, document func() mapping) {
	if err == nil {
		if err := l.write(e.p.stdout, document()); err != nil {
			e.err = err
		}
		return
	}
	e.failed(name, err)
}

// failed prints the error of a part that cannot be read. The export then fails, unless the reason is that LNet
// is not configured and the part does not exist (lnetctl 8).
func (e *exporting) failed(name string, err error) {
	if e.err == status(exitFailure) { //nolint:errorlint // a value of this package
		return // lnetd cannot be reached, which has been printed for an earlier part
	}
	reported := e.p.refused(exportErrors(name), err)
	if api.FaultOf(err).Code != api.CodeNetworkDown {
		e.err = reported
	}
}

// peers prints the peers while they are being read, so that they need not all be in memory.
func (e *exporting) peers(ctx context.Context, c *client.Client, level int64) {
	out := listing{layout: wide, key: "peer", out: e.p.stdout}
	err := out.all(mapped(c.EachPeer(ctx, "", int(level)), func(peer *api.Peer) mapping {
		for k := range peer.NIs {
			peer.NIs[k].Trouble = ""
		}
		return peerDocument(peer, level)
	}))
	if from := (*sequenceError)(nil); errors.As(err, &from) {
		e.failed("peer", from.error)
	} else if err != nil {
		e.err = err
	}
}

// exportAllJSON prints all parts of an export as one JSON value.
func (p *program) exportAllJSON(ctx context.Context) error {
	c := p.client()
	defer c.Close()
	all, err := everythingButPeers(ctx, c)
	if err != nil {
		return p.refused(exportErrors("export"), err)
	}
	return p.unlisted(exportErrors("export"), p.printConfiguration(&all, c.EachPeer(ctx, "", api.PeersDetail)))
}

// printConfiguration prints a configuration as JSON, with the given peers instead of its own.
func (p *program) printConfiguration(c *api.Configuration, peers iter.Seq2[api.Peer, error]) error {
	o := jsonObject{out: p.stdout}
	err := o.members(struct {
		*api.Configuration
		Peers *struct{} `json:"peers,omitempty"` // replaces that of the configuration
	}{Configuration: c})
	if err == nil {
		err = jsonList(&o, "peers", peers)
	}
	if err != nil {
		return err
	}
	return o.end()
}

// everythingButPeers reads all parts of an export from lnetd, except the peers. It stops at the first error.
func everythingButPeers(ctx context.Context, c *client.Client) (all api.Configuration, err error) {
	for _, ask := range []func() error{
		func() (err error) { all.Nets, err = allNets(ctx, c); return err },
		func() (err error) { all.Routes, err = c.Routes(ctx, api.AllRoutes); return err },
		func() (err error) { all.Routing, err = c.Routing(ctx); return err },
		func() (err error) { all.Globals, err = c.Globals(ctx); return err },
		func() (err error) { all.UDSP, err = c.UDSP(ctx, ""); return err },
		func() (err error) {
			configured, err := c.Configuration(ctx)
			all.Selection, all.Lnetd = configured.Selection, configured.Lnetd
			return err
		},
	} {
		if err := ask(); err != nil {
			return all, err
		}
	}
	return all, nil
}

// exportBackup prints the node's configuration and the peers found by discovery (lnetctl 8.2).
func (p *program) exportBackup(ctx context.Context) error {
	c := p.client()
	defer c.Close()
	all, err := c.Configuration(ctx)
	switch {
	case err != nil && api.FaultOf(err).Code == api.CodeNetworkDown && !p.json:
		// Parameters are available even without LNet.
		e := exporting{p: p}
		e.failed("net", err)
		globals, err := c.Globals(ctx)
		e.part("global", err, classic, func() mapping { return globalsDocument(globals) })
		return e.err
	case err != nil:
		return p.refused(exportErrors("export"), err)
	}
	all.Peers = nil // those found by discovery come in addition, in the order of both
	if p.json {
		return p.unlisted(exportErrors("peer"), p.printConfiguration(&all, heard(c.EachPeer(ctx, "", api.PeersDetail))))
	}
	return p.unlisted(exportErrors("peer"), writeBackup(p.stdout, &all, mapped(heard(c.EachPeer(ctx, "", 0)), backupPeer)))
}

// heard yields the peers except those that have never answered.
func heard(peers iter.Seq2[api.Peer, error]) iter.Seq2[api.Peer, error] {
	return func(yield func(api.Peer, error) bool) {
		for peer, err := range peers {
			if !peer.Unanswered && !yield(peer, err) {
				return
			}
		}
	}
}

// writeBackup prints a configuration in the form of "export --backup". The items of the list of peers are given,
// and those of c are ignored. An error of the sequence is returned as a *sequenceError.
func writeBackup(w io.Writer, c *api.Configuration, peers iter.Seq2[mapping, error]) error {
	if err := wide.write(w, append(backupNets(c.Nets), backupRoutes(c.Routes)...)); err != nil {
		return err
	}
	list := listing{layout: wide, key: "peer", out: w}
	if err := list.all(peers); err != nil {
		return err
	}
	for _, part := range []struct {
		layout   layout
		document mapping
	}{
		{classic, backupRouting(c.Routing)},
		{classic, backupGlobals(c.Globals)},
		{classic, rulesDocument(c.UDSP)},
		{classic, lnetdDocument(c.Selection, c.Lnetd)},
	} {
		if err := part.layout.write(w, part.document); err != nil {
			return err
		}
	}
	return nil
}
