package main

import (
	"context"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/cmd/internal/cli"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
	"github.com/lnetd/lnetd/lnet"
)

func (p *program) peerCommand() *cobra.Command {
	return group("peer", "the peers that the node knows",
		p.peerAddCommand(), p.peerDelCommand(), p.peerShowCommand(), p.peerListCommand(), p.peerSetCommand())
}

// peerOptions holds the options of "peer add" and "peer del".
type peerOptions struct {
	primary     string
	nids        cli.List
	nonMR, lock bool
	force       bool
}

func (o *peerOptions) add(c *cobra.Command, nids string) {
	c.Flags().StringVarP(&o.primary, "prim_nid", "k", "", "the peer's primary `NID`")
	c.Flags().VarP(&o.nids, "nid", "n", nids+"; may be repeated")
}

var (
	peerAddErrors  = errorForm{op: "add", entity: "peer"}
	peerDelErrors  = errorForm{op: "del", entity: "peer"}
	peerShowErrors = errorForm{op: "show", entity: "peer"}
	peerSetErrors  = errorForm{kind: oldDocument, op: "peer", entity: "set", exit: exitInvalid}
)

func (p *program) peerAddCommand() *cobra.Command {
	var o peerOptions
	c := leaf(manual{
		use:   "add --prim_nid NID [--nid NIDS] [--non_mr] [--lock_prim]",
		short: "add a peer, or add NIDs to a peer",
		long: `NIDS is a comma list of NIDs or NID ranges, as for ping. Discovery does not change the
NIDs of a peer that was added by this command. Either all NIDs are added or none.`,
		example: `lnetdctl peer add --prim_nid 10.0.0.1@tcp --nid 10.0.1.1@tcp1
lnetdctl peer add --prim_nid 10.0.0.9@tcp --nid 10.0.0.[10-12]@tcp --lock_prim`,
		exits: peerExits,
	}, func(ctx context.Context) error { return p.peerAdd(ctx, o) })
	o.add(c, "further `NIDS` of the peer")
	c.Flags().BoolVarP(&o.nonMR, "non_mr", "m", false, "the peer is not Multi-Rail")
	c.Flags().BoolVarP(&o.lock, "lock_prim", "l", false, "discovery may not change the primary NID")
	return c
}

const peerExits = `0    success
1    help was requested
234  the peer does not exist, or the request was refused (-22)
255  lnetd does not answer (-1)`

func (p *program) peerAdd(ctx context.Context, o peerOptions) error {
	r := api.PeerAddition{SingleRail: o.nonMR, LockPrimary: o.lock}
	if err := p.peerNIDs(ctx, o, peerAddErrors, &r.Primary, &r.NIDs); err != nil {
		return err
	}
	return p.tell(peerAddErrors, func(c *client.Client) error { return c.AddPeer(ctx, r) })
}

func (p *program) peerDelCommand() *cobra.Command {
	var o peerOptions
	c := leaf(manual{
		use:   "del --prim_nid NID [--nid NIDS] [--force]",
		short: "delete a peer, or NIDs of a peer",
		long: `Deletes the NIDS of the peer. Without --nid, or if NIDS contains the primary NID, it
deletes the whole peer. If the primary NID is locked, it stays unless --force is given. A
gateway cannot be deleted while routes use it.`,
		example: `lnetdctl peer del --prim_nid 10.0.0.1@tcp --nid 10.0.1.1@tcp1
lnetdctl peer del --prim_nid 10.0.0.9@tcp --force`,
		exits: peerExits,
	}, func(ctx context.Context) error { return p.peerDel(ctx, o) })
	o.add(c, "`NIDS` to delete")
	c.Flags().BoolVarP(&o.force, "force", "f", false, "also delete a locked primary NID")
	return c
}

func (p *program) peerDel(ctx context.Context, o peerOptions) error {
	r := api.PeerDeletion{Force: o.force}
	if err := p.peerNIDs(ctx, o, peerDelErrors, &r.Primary, &r.NIDs); err != nil {
		return err
	}
	return p.tell(peerDelErrors, func(c *client.Client) error { return c.DeletePeer(ctx, r) })
}

// peerNIDs parses the NIDs of a peer in the options and stores them in primary and others. If it returns an
// error, it has printed it.
func (p *program) peerNIDs(
	ctx context.Context, o peerOptions, form errorForm, primary *lnet.NID, others *[]lnet.NID,
) error {
	if o.primary == "" {
		return p.invalid(form, -22, "missing primary NID", "name the peer's primary NID with --prim_nid")
	}
	nids, err := p.expandNIDs(ctx, o.primary, 1)
	if err != nil {
		return p.badList(form, err)
	}
	*primary = nids[0]
	if o.nids != "" {
		if *others, err = p.expandNIDs(ctx, o.nids.String(), api.PeerNIDsMax); err != nil {
			return p.badList(form, err)
		}
	}
	return nil
}

func (p *program) peerSetCommand() *cobra.Command {
	var o healthOptions
	var state string
	c := leaf(manual{
		use:   "set {--nid NID | --all} [--health VALUE] [--state FLAGS]",
		short: "set the health of NIDs of peers, and the state of peers",
		long: `lnetd prefers NIDs with higher health. It pings a NID whose health is below 1000 until
its health is 1000 again.

FLAGS, for tests, is the state of the peer as "peer show -v 3" prints it: 1 means
Multi-Rail, 8 configured, 16 discovered, 256 NIDs up to date, 1048576 primary NID locked.`,
		example: `lnetdctl peer set --nid 10.0.0.1@tcp --health 500
lnetdctl peer set --all --health 1000
lnetdctl peer set --nid 10.0.0.1@tcp --state 0x111`,
	}, func(ctx context.Context) error { return p.peerSet(ctx, o, state) })
	o.add(c, "peer's NID")
	c.Flags().StringVarP(&state, "state", "s", "", "`FLAGS` of the peer's state")
	return c
}

func (p *program) peerSet(ctx context.Context, o healthOptions, state string) error {
	if o.health != "" || state == "" {
		if err := p.setHealth(ctx, peerSetErrors, o, (*client.Client).SetPeerHealth); err != nil || state == "" {
			return err
		}
	}
	nid, err := p.whose(peerSetErrors, o)
	if err != nil {
		return err
	}
	flags, ok := parseNumber(state)
	if !ok || flags < 0 || flags > math.MaxUint32 {
		return p.invalid(peerSetErrors, -22, fmt.Sprintf("cannot parse state '%s'", state), "it must be a number of at most 32 bits")
	}
	r := api.PeerState{NID: nid, All: o.all, State: uint32(flags)}
	return p.tell(peerSetErrors, func(c *client.Client) error { return c.SetPeerState(ctx, r) })
}
