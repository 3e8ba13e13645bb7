package main

import (
	"context"
	"fmt"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
	"github.com/lnetd/lnetd/selftest/report"
)

// exitNoNodes is the exit status of "add_group" if it has added no node (-2).
const exitNoNodes = 254

func (p *program) lstAddGroupCommand() *cobra.Command {
	return p.lstLeaf(manual{
		use:   "add_group NAME IDS...",
		short: "create a group of nodes, and add the nodes to the session",
		long: `Each of IDS is a NID or a NID range such as 10.0.0.[1-4,8/2]@tcp. Nodes that do not
answer, or that are in another session, are reported, and are listed as Down or Busy.`,
		example: "lnetdctl lst add_group servers 10.0.0.[10-11]@tcp 10.0.0.20@tcp",
	}, 2, -1, func(ctx context.Context, c *client.Client, key api.LstKey, operands []string) error {
		return p.lstAddGroup(ctx, c, api.LstAddGroup{Key: key, Name: operands[0], IDs: operands[1:]})
	})
}

func (p *program) lstAddGroup(ctx context.Context, c *client.Client, r api.LstAddGroup) error {
	added, err := c.LstAddGroup(ctx, r)
	if err != nil {
		return p.lstRefused(lstWords{what: "group", failed: "Failed to add nodes to group"}, err)
	}
	if p.json {
		if err := p.printJSON(added); err != nil {
			return err
		}
		if added.Deleted {
			return status(exitNoNodes)
		}
		return nil
	}
	if !p.lstShowAdded(r.Name, &added) {
		return status(exitNoNodes)
	}
	return nil
}

// lstShowAdded prints the result of "add_group". It returns false if the group was not created.
func (p *program) lstShowAdded(name string, added *report.GroupAddition) bool {
	for k := range added.Lists {
		a := &added.Lists[k]
		if a.Error != nil {
			fmt.Fprintf(p.stderr, "Ignore invalid id list %s\n", a.IDs)
			if a.Error.Reason != "" {
				fmt.Fprintln(p.stderr, a.Error.Reason)
			}
			continue
		}
		p.lstNodesFailed("create session", &a.Result)
		if a.Added {
			fmt.Fprintf(p.stdout, "%s are added to session\n", a.IDs)
		}
	}
	if added.Compatible {
		fmt.Fprintln(p.stderr, "Session is in compatible mode: some nodes have fewer features")
	}
	if added.Deleted {
		fmt.Fprintf(p.stderr, "No nodes added successfully, deleting group %s\n", name)
		fmt.Fprintln(p.stdout, "Group is deleted")
		return false
	}
	return true
}

func (p *program) lstDeleteGroupCommand() *cobra.Command {
	return p.lstLeaf(manual{
		use:     "del_group NAME",
		short:   "delete a group that is not used by any test",
		long:    `Nodes that are not in any other group leave the session.`,
		example: "lnetdctl lst del_group servers",
	}, 1, 1, func(ctx context.Context, c *client.Client, key api.LstKey, operands []string) error {
		r, err := c.LstDeleteGroup(ctx, api.LstNamed{Key: key, Name: operands[0]})
		if err != nil {
			return p.lstRefused(lstWords{what: "group", failed: "Failed to delete group"}, err)
		}
		if p.json {
			return p.printJSON(r)
		}
		fmt.Fprintln(p.stdout, "Group is deleted")
		return nil
	})
}

// lstCleanable holds the values of the option --clean, with the states of nodes that each stands for.
var lstCleanable = map[string][]report.State{
	"active":  {report.Active},
	"busy":    {report.Busy},
	"down":    {report.Down},
	"unknown": {report.Unknown},
	"invalid": {report.Busy, report.Down, report.Unknown},
}

func (p *program) lstUpdateGroupCommand() *cobra.Command {
	var refresh bool
	var clean, remove string
	c := p.lstLeaf(manual{
		use:   "update_group --refresh | --clean STATE | --remove IDS NAME",
		short: "change a group that is not used by any test",
		example: `lnetdctl lst update_group --refresh servers
lnetdctl lst update_group --clean down servers`,
		long: `A group without nodes is deleted.`,
	}, 1, 1, func(ctx context.Context, c *client.Client, key api.LstKey, operands []string) error {
		r := api.LstUpdateGroup{Key: key, Name: operands[0], Refresh: refresh}
		if !one(refresh, clean != "", remove != "") {
			return needsHelp{exitFailure}
		}
		if clean != "" {
			states, known := lstCleanable[clean]
			if !known {
				return p.lstFail(api.CodeLstInvalid, -int(syscall.EINVAL), "Unknown state "+clean)
			}
			for _, s := range states {
				r.Clean = append(r.Clean, s.String())
			}
		}
		if remove != "" {
			r.Remove = []string{remove}
		}
		changed, err := c.LstUpdateGroup(ctx, r)
		if err != nil {
			return p.lstRefused(lstWords{what: "group", failed: "Failed to update group"}, err)
		}
		if p.json {
			return p.printJSON(changed)
		}
		// Nodes that were removed from the group are notified, but it is no error if they do not answer.
		if refresh && p.lstNodesFailed("update group", &changed.Result) > 0 {
			return status(exitFailure)
		}
		return nil
	})
	f := c.Flags()
	f.BoolVarP(&refresh, "refresh", "f", false, "ask inactive nodes to join again")
	f.StringVarP(&clean, "clean", "c", "", "remove nodes in `STATE`: active, busy, down, unknown, invalid (not active)")
	f.StringVarP(&remove, "remove", "r", "", "remove the nodes `IDS`")
	return c
}

// one reports whether exactly one of its arguments is true.
func one(given ...bool) bool {
	n := 0
	for _, b := range given {
		if b {
			n++
		}
	}
	return n == 1
}

// lstStateOptions holds the options that select nodes by their state.
type lstStateOptions struct {
	active, busy, down, unknown, invalid, all bool
}

// shows reports whether any of the options is given, so that nodes are listed one by one.
func (o *lstStateOptions) shows() bool {
	return o.active || o.busy || o.down || o.unknown || o.invalid || o.all
}

// match reports whether the options select nodes in state s.
func (o *lstStateOptions) match(s report.State) bool {
	switch s {
	case report.Active:
		return o.all || o.active
	case report.Busy:
		return o.all || o.invalid || o.busy
	case report.Down:
		return o.all || o.invalid || o.down
	}
	return o.all || o.invalid || o.unknown
}

// nodes prints the nodes that the options select, and returns their number.
func (o *lstStateOptions) nodes(p *program, nodes []report.NodeInfo) int {
	n := 0
	for _, v := range nodes {
		if o.match(v.State) {
			fmt.Fprintf(p.stdout, "\t%s: %s\n", v.ID, v.State)
			n++
		}
	}
	return n
}

// lstCountHeader is the heading above the numbers of nodes in each state.
const lstCountHeader = "\tACTIVE\tBUSY\tDOWN\tUNKNOWN\tTOTAL"

func lstCount(c report.Count) string {
	return fmt.Sprintf("\t%d\t%d\t%d\t%d\t%d", c.Active, c.Busy, c.Down, c.Unknown, c.Total)
}

func (p *program) lstListGroupCommand() *cobra.Command {
	var o lstStateOptions
	c := p.lstLeaf(manual{
		use:   "list_group [--active] [--busy] [--down] [--unknown] [--all] [GROUP...]",
		short: "list the groups, or the nodes of groups",
		long: `Without GROUP it lists the groups, with GROUP the number of nodes in each state. With one
of the options it lists the nodes of the group in that state.`,
		example: `lnetdctl lst list_group
lnetdctl lst list_group --all servers`,
	}, 0, -1, func(ctx context.Context, c *client.Client, key api.LstKey, operands []string) error {
		if len(operands) == 0 {
			return p.lstListGroups(ctx, c, key)
		}
		return p.lstShowGroups(ctx, c, key, operands, &o)
	})
	f := c.Flags()
	f.BoolVar(&o.active, "active", false, "list active nodes")
	f.BoolVar(&o.busy, "busy", false, "list nodes in another session")
	f.BoolVar(&o.down, "down", false, "list nodes that did not answer")
	f.BoolVar(&o.unknown, "unknown", false, "list nodes that are in no session, or that have not been asked")
	f.BoolVar(&o.all, "all", false, "list all nodes")
	return c
}

func (p *program) lstListGroups(ctx context.Context, c *client.Client, key api.LstKey) error {
	names, err := c.LstGroups(ctx, key)
	if err != nil {
		return p.lstRefused(lstWords{what: "group", failed: "Failed to list groups"}, err)
	}
	return p.lstShowNames(names, "groups")
}

// lstShowNames prints a numbered list of names.
func (p *program) lstShowNames(names []string, what string) error {
	if p.json {
		return p.printJSON(api.LstNames{Names: names})
	}
	for k, name := range names {
		fmt.Fprintf(p.stdout, "%d) %s\n", k+1, name)
	}
	fmt.Fprintf(p.stdout, "Total %d %s\n", len(names), what)
	return nil
}

// lstShowGroups prints descriptions of groups. Like Lustre's lst, it prints nothing for a group that does not
// exist.
func (p *program) lstShowGroups(
	ctx context.Context, c *client.Client, key api.LstKey, names []string, o *lstStateOptions,
) error {
	groups := []report.GroupInfo{}
	for _, name := range names {
		g, err := c.LstGroup(ctx, api.LstNamed{Key: key, Name: name})
		switch {
		case isErrno(err, syscall.ENOENT):
			p.hint("there is no group " + name)
			continue
		case err != nil:
			return p.lstRefused(lstWords{what: "group", failed: "Failed to list group"}, err)
		}
		groups = append(groups, g)
	}
	if p.json {
		return p.printJSON(groups)
	}
	if !o.shows() {
		fmt.Fprintln(p.stdout, lstCountHeader)
	}
	for k := range groups {
		g := &groups[k]
		if !o.shows() {
			fmt.Fprintf(p.stdout, "%s\t%s\n", lstCount(g.Count), g.Name)
			continue
		}
		fmt.Fprintf(p.stdout, "Group [ %s ]\n", g.Name)
		if n := o.nodes(p, g.Nodes); n > 0 {
			fmt.Fprintf(p.stdout, "Total %d nodes [ %s ]\n", n, g.Name)
		} else {
			fmt.Fprintf(p.stdout, "No nodes found [ %s ]\n", g.Name)
		}
	}
	return nil
}
