package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
	"github.com/lnetd/lnetd/lnet"
)

var debugErrors = errorForm{kind: ownText, exit: exitInvalid}

func (p *program) debugCommand() *cobra.Command {
	return group("debug", "commands for troubleshooting",
		p.debugRecoveryCommand(), p.debugPeerCommand(), p.debugNIDListCommand(), p.debugCPTsCommand())
}

func (p *program) debugRecoveryCommand() *cobra.Command {
	var local, peers bool
	c := leaf(manual{
		use:   "recovery {--local | --peer}",
		short: "print the NIDs that recovery pings",
		long: `lnetd pings a local NI, or a NID of a peer, whose health is below the maximum, at growing
intervals, until its health is at the maximum again. If there are no such NIDs, nothing
is printed.`,
		example: "lnetdctl debug recovery --local",
		exits: `0    success
1    help was requested
234  neither option was given (-22)
255  lnetd does not answer (-1)`,
	}, func(ctx context.Context) error {
		if !local && !peers {
			return p.invalid(debugErrors, -22, "either --local or --peer is needed", "")
		}
		return show(p, errorForm{kind: plainText, exit: exitInvalid}, wide,
			func(c *client.Client) (api.Recovery, error) {
				r, err := c.Recovery(ctx)
				var f *api.Fault
				if errors.As(err, &f) && f.Code != api.CodeDaemonUnreachable {
					f.Text = "Operation failed: " + f.Text
				}
				return r, err
			},
			func(r api.Recovery) any { return r },
			func(r api.Recovery) mapping { return recoveryDocument(&r, local, peers) })
	})
	c.Flags().BoolVarP(&local, "local", "l", false, "local NIs")
	c.Flags().BoolVarP(&peers, "peer", "p", false, "NIDs of peers")
	return c
}

// recoveryDocument returns the document of "debug recovery" (lnetctl 5.7). It has the NIDs of local NIs, of
// peer NIs, or of both, as the arguments select.
func recoveryDocument(r *api.Recovery, local, peers bool) mapping {
	var m mapping
	for _, queue := range []struct {
		key    string
		wanted bool
		nids   []lnet.NID
	}{{"Local NI recovery", local, r.Local}, {"Peer NI recovery", peers, r.Peers}} {
		if !queue.wanted || len(queue.nids) == 0 {
			continue
		}
		nids := mapping{}
		for k, nid := range queue.nids {
			nids = append(nids, entry{"nid-" + strconv.Itoa(k), text(nid.String())})
		}
		m = append(m, entry{queue.key, nids})
	}
	return m
}

func (p *program) debugPeerCommand() *cobra.Command {
	var nid string
	c := leaf(manual{
		use:   "peer --nid NID",
		short: "print all details of a peer",
		long: `Prints the same as "peer show -v 4" for one peer. (A kernel node writes it to its log.)
NID is any NID of the peer.`,
		example: "lnetdctl debug peer --nid 10.0.0.1@tcp",
		exits:   peerExits,
	}, func(ctx context.Context) error {
		if nid == "" {
			return p.invalid(debugErrors, -22, "--nid is needed", "")
		}
		return p.showPeers(ctx, "peer", peerFilter{nids: nid}, api.PeersDetail, peerDocument)
	})
	c.Flags().StringVarP(&nid, "nid", "k", "", "`NID` of the peer")
	return c
}

func (p *program) debugNIDListCommand() *cobra.Command {
	return command(manual{
		use:   "nidlist LIST [NID]",
		short: "parse a list of NIDs, and check whether it contains a NID",
		long: `LIST is one argument: NID ranges separated by spaces, such as 10.0.0.[1-9/2]@tcp,
10.0.0.0/8@tcp or *@o2ib. The list is printed in canonical form. The command does not
need a running lnetd.`,
		example: `lnetdctl debug nidlist 10.0.0.[1-9]@tcp 10.0.0.7@tcp`,
		exits: `0    success, also if NID is not in LIST
1    help was requested
234  LIST or NID is invalid (-22)`,
	}, func(_ context.Context, operands []string) error { return p.debugNIDList(operands) })
}

func (p *program) debugNIDList(operands []string) error {
	if len(operands) == 0 || len(operands) > 2 {
		return needsHelp{exitInvalid}
	}
	list, err := named(p, operands[0], lnet.ParseNIDList)
	if err != nil {
		return p.invalid(debugErrors, -22, "cannot parse nidlist '"+operands[0]+"'", err.Error())
	}
	answer := struct {
		List    string   `json:"nidlist"`
		NID     lnet.NID `json:"nid,omitzero"`
		Matches *bool    `json:"matches,omitempty"`
	}{List: list.String()}
	lines := "nidlist parsed to: " + answer.List + "\n"
	if len(operands) == 2 {
		if answer.NID, err = named(p, operands[1], lnet.ParseNID); err != nil {
			return p.invalid(debugErrors, -22, "cannot parse NID '"+operands[1]+"'", err.Error())
		}
		verb := "does not match"
		answer.Matches = new(list.Match(answer.NID))
		if *answer.Matches {
			verb = "matches"
		}
		lines += fmt.Sprintf("%s %s nidlist %s\n", answer.NID, verb, operands[0])
	}
	if p.json {
		return p.printJSON(answer)
	}
	_, err = fmt.Fprint(p.stdout, lines)
	return err
}
