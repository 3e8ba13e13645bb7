package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
)

// completionPatience is the timeout for a request to lnetd whose answer is needed for a completion. It is short,
// because the user waits.
const completionPatience = time.Second

// bashWords is put before the completion script for bash, which needs a function of the package bash-completion.
// If this package is not installed, bashWords defines a simple form of the function that splits words at
// spaces.
const bashWords = `declare -F _get_comp_words_by_ref >/dev/null || _get_comp_words_by_ref() {
    local line=${COMP_LINE:0:COMP_POINT}
    read -ra words <<<"$line"
    [[ -z $line || $line == *[[:space:]] ]] && words+=("")
    cword=$((${#words[@]} - 1))
    cur=${words[cword]}
    prev=${words[cword - 1]}
}

`

func (p *program) completionCommand() *cobra.Command {
	c := command(manual{
		use:   "completion bash | zsh | fish",
		short: "print a completion script for a shell",
		long: `With the script, the shell completes commands and options, and, by asking the running
lnetd, NIDs, nets, interfaces, gateways and positions of policies. The script is for the
name under which the program was called: lnetdctl, lnetctl or lst.`,
		example: `lnetdctl completion bash > /etc/bash_completion.d/lnetdctl
lnetdctl completion zsh > /usr/share/zsh/site-functions/_lnetdctl
lnetdctl completion fish > /etc/fish/completions/lnetdctl.fish`,
	}, func(_ context.Context, operands []string) error {
		if len(operands) != 1 {
			return needsHelp{exitInvalid}
		}
		root := p.root()
		switch operands[0] {
		case "bash":
			if _, err := io.WriteString(p.stdout, bashWords); err != nil {
				return err
			}
			return root.GenBashCompletionV2(p.stdout, true)
		case "zsh":
			return root.GenZshCompletion(p.stdout)
		case "fish":
			return root.GenFishCompletion(p.stdout, true)
		}
		return p.invalid(errorForm{kind: ownText}, -22, "no completion script for the shell '"+operands[0]+"'",
			"supported shells: bash, zsh and fish")
	})
	c.ValidArgs = []string{"bash", "zsh", "fish"}
	return c
}

// complete prints the completions of the last word of a command line, for the script that "completion" prints.
// It never prints an error. If lnetd cannot be reached, it completes only words that do not depend on lnetd.
func (p *program) complete(root *cobra.Command, args []string) int {
	root.SetErr(io.Discard)
	p.stderr = io.Discard
	p.completions(root)
	root.SetArgs(args)
	_ = root.ExecuteContext(context.Background()) // for an invalid line nothing is printed
	return exitOK
}

// candidates returns the possible completions of the last word of a command line.
func (p *program) candidates(line []string) []string {
	var out bytes.Buffer
	one := *p
	one.stdout, one.stderr = &out, io.Discard
	one.run(append([]string{cobra.ShellCompNoDescRequestCmd}, line...))
	var found []string
	for word := range strings.Lines(out.String()) {
		if word = strings.TrimSpace(word); word != "" && word[0] != ':' {
			found = append(found, word)
		}
	}
	return found
}

// completions sets the completion functions of the command c and its subcommands. It chooses them by the names
// that values of options and operands have in the help.
func (p *program) completions(c *cobra.Command) {
	_, operands, _ := strings.Cut(c.Use, " ")
	if i := strings.LastIndex(operands, "]"); i >= 0 && !strings.HasSuffix(operands, "]") {
		operands = operands[i+1:]
	}
	if c.ValidArgsFunction == nil && len(c.ValidArgs) == 0 && !c.HasSubCommands() {
		c.ValidArgsFunction = p.offer(strings.Fields(strings.Trim(operands, "[]. ")))
	}
	c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		value, _ := pflag.UnquoteUsage(f)
		if _, known := c.GetFlagCompletionFunc(f.Name); !known && f.Value.Type() != "bool" {
			_ = c.RegisterFlagCompletionFunc(f.Name, p.offer([]string{f.Name, value})) // the option exists
		}
	})
	for _, sub := range c.Commands() {
		p.completions(sub)
	}
}

// offer returns a completion function that offers the values of the first name for which values are known.
func (p *program) offer(names []string) cobra.CompletionFunc {
	return func(c *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		before := ""
		if i := strings.LastIndexByte(begun, ','); i >= 0 { // complete the last item of a list
			before = begun[:i+1]
		}
		for _, name := range names {
			name = strings.TrimRight(strings.Trim(name, "[]{}"), ".")
			if name == "FILE" || name == "PATH" {
				return nil, cobra.ShellCompDirectiveDefault
			}
			if values := p.values(name); values != nil {
				var found []string
				for _, v := range values() {
					if strings.HasPrefix(before+v, begun) {
						found = append(found, before+v)
					}
				}
				return found, cobra.ShellCompDirectiveNoFileComp
			}
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// values returns a function that lists the possible values for a name of an option, or of a value or operand in
// the help. It returns nil if no values are known for the name.
func (p *program) values(name string) func() []string {
	switch name {
	case "source", "local_nid":
		return p.ownNIDs
	case "sort":
		return func() []string { return sortKeys }
	case "gateway":
		return p.gateways
	case "idx":
		return p.policies
	case "NID", "NIDS", "IDS", "LIST", "GROUP|IDS":
		return p.allNIDs
	case "NET", "NETS":
		return p.nets
	case "INTERFACE", "INTERFACES":
		return interfaces
	}
	return nil
}

// asked reads a list from lnetd with a short timeout, and returns what the function words makes of the
// items. It returns nil if there is an error.
func asked[T any](p *program, get func(ctx context.Context, c *client.Client) ([]T, error), words func(v *T) []string) []string {
	ctx, cancel := context.WithTimeout(context.Background(), completionPatience)
	defer cancel()
	c := p.client()
	defer c.Close()
	values, err := get(ctx, c)
	if err != nil {
		return nil
	}
	var all []string
	for k := range values {
		all = append(all, words(&values[k])...)
	}
	return all
}

func (p *program) ownNIDs() []string {
	return asked(p,
		func(ctx context.Context, c *client.Client) ([]api.Net, error) { return c.Nets(ctx, "") },
		func(n *api.Net) (nids []string) {
			for k := range n.NIs {
				nids = append(nids, n.NIs[k].NID.String())
			}
			return nids
		})
}

// allNIDs returns the NIDs of the node and its peers.
func (p *program) allNIDs() []string {
	return append(p.ownNIDs(), asked(p,
		func(ctx context.Context, c *client.Client) ([]api.Peer, error) { return c.Peers(ctx, "") },
		func(peer *api.Peer) (nids []string) {
			for k := range peer.NIs {
				nids = append(nids, peer.NIs[k].NID.String())
			}
			return nids
		})...)
}

// nets returns the names of the nets of the node and of those to which routes lead.
func (p *program) nets() []string {
	own := asked(p,
		func(ctx context.Context, c *client.Client) ([]api.Net, error) { return c.Nets(ctx, "") },
		func(n *api.Net) []string { return []string{n.Net.String()} })
	return append(own, p.routes(func(r *api.Route) []string { return []string{r.Net.String()} })...)
}

func (p *program) gateways() []string {
	return p.routes(func(r *api.Route) []string { return []string{r.Gateway.String()} })
}

func (p *program) routes(words func(r *api.Route) []string) []string {
	return asked(p, func(ctx context.Context, c *client.Client) ([]api.Route, error) {
		return c.Routes(ctx, api.RouteFilter{Hops: -1, Priority: -1})
	}, words)
}

// policies returns the indexes of the user-defined selection policies.
func (p *program) policies() []string {
	return asked(p,
		func(ctx context.Context, c *client.Client) ([]api.UDSPRule, error) { return c.UDSP(ctx, "") },
		func(r *api.UDSPRule) []string {
			if r.Index == nil {
				return nil
			}
			return []string{strconv.Itoa(*r.Index)}
		})
}

// interfaces returns the names of the network interfaces of this host, on which lnetd runs too.
func interfaces() []string {
	all, err := net.Interfaces()
	if err != nil {
		return nil
	}
	var names []string
	for k := range all {
		names = append(names, all[k].Name)
	}
	return names
}
