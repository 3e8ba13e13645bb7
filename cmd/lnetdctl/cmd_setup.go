package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
)

// action is a change of the host's network settings that is needed.
type action struct {
	// Command is a shell command that makes the change.
	Command string `json:"command"`
	// Current is the present value of the setting. It may be empty.
	Current string `json:"current,omitempty"`

	do func(ctx context.Context, h host) error
}

const setupExits = `0    success, or nothing had to be done
1    help was requested
234  the interfaces could not be read, or a setting could not be changed (-22)
255  lnetd does not answer (-1)`

const setupOnly = `Without --run it only prints the commands that it would run. --run needs root or
CAP_NET_ADMIN. Settings that are already correct are left out. Run the program in the
network namespace of lnetd.`

func (p *program) setupMRRoutingCommand() *cobra.Command {
	return p.setupCommand(manual{
		use:   "setup-mrrouting [--run]",
		short: "make Linux send from each address through its own interface",
		long: `If several interfaces of NIs are on one subnet, Linux sends all packets for that subnet
through one of them. This command gives each of them a routing table with a route to the
subnet, and a rule by which packets from its address use that table. lnetd itself binds
connections to interfaces and does not need this, but other programs on the host may.

` + setupOnly,
		example: "lnetdctl setup-mrrouting\nlnetdctl setup-mrrouting --run",
		exits:   setupExits,
	}, routingActions)
}

func (p *program) setupSysctlCommand() *cobra.Command {
	return p.setupCommand(manual{
		use:   "setup-sysctl [--run]",
		short: "make each interface answer ARP requests only for its own address",
		long: `If several interfaces of NIs are on one IPv4 subnet, Linux may answer an ARP request for
the address of one of them through another, and drops packets that arrive on another
interface than the one that it would reply through. This command sets the kernel
parameters arp_ignore, arp_announce, arp_filter and rp_filter of these interfaces so that
this does not happen.

` + setupOnly,
		example: "lnetdctl setup-sysctl\nlnetdctl setup-sysctl --run",
		exits:   setupExits,
	}, sysctlActions)
}

// setupCommand returns a command that prints the actions that plan returns or, with the option --run, performs
// them.
func (p *program) setupCommand(m manual, plan func(ctx context.Context, h host, rails []rail) ([]action, error)) *cobra.Command {
	var run bool
	c := leaf(m, func(ctx context.Context) error {
		name, _, _ := strings.Cut(m.use, " ")
		form := errorForm{kind: oldDocument, op: "setup", entity: strings.TrimPrefix(name, "setup-"), exit: exitInvalid}
		client := p.client()
		defer client.Close()
		actions, err := p.planned(ctx, client, plan)
		if err == nil && run {
			err = p.perform(ctx, actions)
		}
		if err != nil {
			return p.refused(form, err)
		}
		return p.showActions(actions, run)
	})
	c.Flags().BoolVar(&run, "run", false, "make the changes")
	return c
}

func (p *program) planned(
	ctx context.Context, c *client.Client, plan func(ctx context.Context, h host, rails []rail) ([]action, error),
) ([]action, error) {
	nets, err := c.Nets(ctx, "")
	if err != nil {
		return nil, err
	}
	rails, err := sharedRails(p.machine(), nets)
	if err == nil {
		var actions []action
		if actions, err = plan(ctx, p.machine(), rails); err == nil {
			return actions, nil
		}
	}
	return nil, setupFault("cannot read the interfaces of the host", err)
}

// perform performs all actions in order, and stops at the first error.
func (p *program) perform(ctx context.Context, actions []action) error {
	for _, a := range actions {
		if err := a.do(ctx, p.machine()); err != nil {
			return setupFault("failed: "+a.Command, err)
		}
	}
	return nil
}

func setupFault(text string, err error) *api.Fault {
	f := api.Fault{Code: api.CodeRequestInvalid, Errno: -int(syscall.EINVAL), Text: text}
	switch said := err.Error(); {
	case errors.Is(err, fs.ErrPermission) || strings.Contains(said, "not permitted"):
		f.Errno, f.Text = -int(syscall.EPERM), text+": not permitted"
		f.Remedy = "run it as root"
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, exec.ErrNotFound):
		f.Errno = -int(syscall.ENOENT)
	}
	return f.Because(err)
}

func (p *program) showActions(actions []action, done bool) error {
	if p.json {
		return p.printJSON(struct {
			Actions []action `json:"actions"`
			Done    bool     `json:"done"`
		}{actions, done})
	}
	for _, a := range actions {
		line := a.Command
		if a.Current != "" {
			line += "  # is " + a.Current
		}
		fmt.Fprintln(p.stdout, line)
	}
	switch {
	case len(actions) == 0:
		p.hint("nothing to do: no two interfaces of NIs are on one subnet, or everything is already set")
	case !done:
		p.hint("nothing was changed; use --run to make the changes")
	}
	return nil
}

// mrTables plus the index of an interface is the number of the routing table for that interface.
const mrTables = 10000

// routingActions returns the actions that add the missing IP routes and rules for rails.
func routingActions(ctx context.Context, h host, rails []rail) ([]action, error) {
	actions := []action{}
	for _, r := range rails {
		family, address, table := "-4", r.address.Addr().String(), strconv.Itoa(mrTables+r.index)
		if r.address.Addr().Is6() {
			family = "-6"
		}
		route := []string{"route", "replace", r.address.Masked().String(), "dev", r.device, "src", address, "table", table}
		rule := []string{"rule", "add", "from", address, "table", table}
		for _, c := range []struct{ show, change []string }{
			{[]string{"route", "show", r.address.Masked().String(), "dev", r.device, "table", table}, route},
			{[]string{"rule", "show", "from", address, "table", table}, rule},
		} {
			// The command that shows a routing table fails if the table was never used, which means
			// that the entry is missing.
			if said, err := h.Run(ctx, append([]string{"ip", family}, c.show...)...); err == nil && strings.TrimSpace(said) != "" {
				continue
			} else if errors.Is(err, exec.ErrNotFound) {
				return nil, err
			}
			argv := append([]string{"ip", family}, c.change...)
			actions = append(actions, action{
				Command: strings.Join(argv, " "),
				do:      func(ctx context.Context, h host) error { _, err := h.Run(ctx, argv...); return err },
			})
		}
	}
	return actions, nil
}

// sysctlActions returns the actions that change the kernel parameters of rails whose values are not right.
func sysctlActions(_ context.Context, h host, rails []rail) ([]action, error) {
	var keys [][]string
	for _, r := range rails {
		for _, name := range []string{"arp_ignore", "arp_announce", "arp_filter", "rp_filter"} {
			key := ipv4Key(r.device, name)
			if r.address.Addr().Is4() && !slices.ContainsFunc(keys, func(o []string) bool { return slices.Equal(o, key) }) {
				keys = append(keys, key)
			}
		}
	}
	if len(keys) > 0 {
		keys = append(keys, ipv4Key("all", "arp_filter")) // the value for "all" applies to every interface
	}
	actions := []action{}
	for _, key := range keys {
		current, err := h.Sysctl(key)
		if err != nil {
			return nil, err
		}
		value, err := wantedSysctl(h, key[len(key)-1], current)
		if err != nil {
			return nil, err
		}
		if current != value {
			actions = append(actions, action{
				Command: "sysctl -w " + sysctlName(key) + "=" + value, Current: current,
				do: func(_ context.Context, h host) error { return h.SetSysctl(key, value) },
			})
		}
	}
	return actions, nil
}

func ipv4Key(device, name string) []string { return []string{"net", "ipv4", "conf", device, name} }

// wantedSysctl returns the value that a parameter of a rail should have, given its current value.
func wantedSysctl(h host, name, current string) (string, error) {
	switch name {
	case "arp_ignore":
		return "1", nil // answer only for addresses of the interface
	case "arp_announce":
		return "2", nil // send requests with the address of the interface
	case "arp_filter":
		return "0", nil
	}
	// The kernel uses the maximum of the values for the interface and for "all". Of the possible values
	// of rp_filter, only 1 must not be used.
	all, err := h.Sysctl(ipv4Key("all", name))
	if current != "1" && all != "1" {
		return current, err
	}
	return "2", err
}

// sysctlName returns the name of a kernel parameter as the command sysctl expects it, with slashes instead of the
// dots in names of interfaces.
func sysctlName(key []string) string {
	words := make([]string, len(key))
	for k, w := range key {
		words[k] = strings.ReplaceAll(w, ".", "/")
	}
	return strings.Join(words, ".")
}
