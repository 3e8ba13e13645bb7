package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/cmd/internal/cli"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
	"github.com/lnetd/lnetd/lnet"
)

func (p *program) netCommand() *cobra.Command {
	return group("net", "the node's nets and NIs",
		p.netAddCommand(), p.netDelCommand(), p.netShowCommand(), p.netSetCommand())
}

var (
	netAddErrors = errorForm{op: "add", entity: "net"}
	netDelErrors = errorForm{op: "del", entity: "net"}
	netMissing   = errorForm{kind: plainText}
	// Invalid options of "net add": lnetctl's texts (lnetctl 4.2).
	netAddOptionErrors = errorForm{kind: oldDocument, op: "ni", entity: "add"}
)

// netMissingText is lnetctl's text for a missing net.
const netMissingText = "missing mandatory parameters in NI config: 'network'"

const netExits = `0    success
1    help was asked for
234  NIs cannot be added or deleted so, or the options make no sense (-22)
255  an option has an impossible value, or there is no lnetd to talk to (-1)`

// niNames are the options that name NIs.
type niNames struct {
	net, nid   string
	interfaces cli.List
}

func (o *niNames) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVarP(&o.net, "net", "n", "", "the `NET`, such as tcp or tcp1")
	f.VarP(&o.interfaces, "if", "i", "`INTERFACES`, a comma list; may be repeated")
	f.StringVar(&o.nid, "nid", "", "`NID` in place of a net and interfaces")
}

// readNINames parses the names into a request. Options that are not given leave their field empty.
// It has reported the error.
func (p *program) readNINames(o niNames, form errorForm, net *lnet.Net, names *[]string, nid *lnet.NID) error {
	if o.net != "" && o.nid != "" {
		return p.invalid(netMissing, -22, "--net is invalid with --nid option", "the NID names its net itself")
	}
	var err error
	if o.net != "" {
		if *net, err = lnet.ParseNet(o.net); err != nil {
			return p.invalid(form, -2, "cannot parse net", err.Error())
		}
	}
	if o.nid != "" {
		if *nid, err = p.readNID(form, o.nid); err != nil {
			return err
		}
	}
	for _, name := range splitList(o.interfaces.String()) {
		if name != "" {
			*names = append(*names, name)
		}
	}
	return nil
}

// netAddOptions are the options of "net add".
type netAddOptions struct {
	niNames
	ip2nets                                              string
	peerTimeout, peerCredits, peerBufferCredits, credits string
	cpt                                                  string
	tunables                                             tunableOptions
	authKey, trafficClass                                string
	skipRoutes                                           bool
}

func (p *program) netAddCommand() *cobra.Command {
	var o netAddOptions
	c := leaf(manual{
		use:   "add {--net NET --if INTERFACES | --nid NID | --ip2net RULES} [TUNABLES]",
		short: "bring NIs up",
		long: `Each interface becomes an NI of the net, which is made if there is none: all of
them come up, or none. An interface may carry CPTs, as eth0[0,1]. With --nid the
interface is the one that has the address. RULES are those of the module
parameter ip2nets.

The first NI of a net sets timeout and credits of its peers for the others too.
A number that cannot be read, or is out of range, counts as not given, but for
the tunables of drivers. The host's routes are left as they are; see
setup-mrrouting.`,
		example: `lnetdctl net add --net tcp1 --if eth1
lnetdctl net add --net tcp --if eth0,eth2 --peer-credits 16 --credits 512
lnetdctl net add --nid 10.1.2.3@tcp2`,
		exits: netExits,
	}, func(ctx context.Context) error { return p.netAdd(ctx, o) })
	o.add(c)
	f := c.Flags()
	f.StringVarP(&o.ip2nets, "ip2net", "p", "", "`RULES` that choose nets by addresses, at most 127 characters")
	f.StringVarP(&o.peerTimeout, "peer-timeout", "t", "", "`SECONDS` without a sign of life after which a peer is down; 0: never")
	f.StringVarP(&o.peerCredits, "peer-credits", "c", "", "messages under way to one peer, a `NUMBER`")
	f.StringVarP(&o.peerBufferCredits, "peer-buffer-credits", "b", "", "router buffers that one peer may take, a `NUMBER`")
	f.StringVarP(&o.credits, "credits", "r", "", "messages under way on the NI, a `NUMBER`")
	f.StringVarP(&o.cpt, "cpt", "s", "", "CPU partitions that the NI belongs to, a `LIST` such as [0,1]")
	o.tunables.add(c, false)
	f.BoolVarP(&o.skipRoutes, "skip-mr-route-setup", "k", false, "without effect: routes are never set up unasked")
	f.StringVarP(&o.authKey, "auth-key", "a", "", "without effect: a `KEY` of kfi nets")
	f.StringVarP(&o.trafficClass, "traffic-class", "T", "", "without effect: a `CLASS` of kfi nets")
	return c
}

func (p *program) netAdd(ctx context.Context, o netAddOptions) error {
	r, err := p.readNetAddition(o)
	if err != nil {
		return err
	}
	return p.tell(netAddErrors, func(c *client.Client) error {
		warnings, err := c.AddNet(ctx, r)
		for _, text := range warnings {
			p.warn(text)
		}
		return err
	})
}

func (p *program) readNetAddition(o netAddOptions) (r api.NetAddition, err error) {
	if err := p.readNINames(o.niNames, netAddErrors, &r.Net, &r.Interfaces, &r.NID); err != nil {
		return r, err
	}
	const ip2netsMax = 127 // lnetctl 4.2
	switch {
	case o.net == "" && o.nid == "" && o.ip2nets == "":
		return r, p.invalid(netMissing, -22, netMissingText, "name the net with --net")
	case o.net != "" && len(r.Interfaces) == 0:
		return r, p.invalid(netMissing, -22, "creating a local NI needs at least one interface", "name it with --if")
	case len(o.ip2nets) > ip2netsMax:
		return r, p.invalid(netAddErrors, -7, "ip2net string is too long", "write the rules into a file, and import it")
	}
	r.IP2Nets, r.CPT = o.ip2nets, o.cpt
	some := api.Range{Min: 1, Max: api.CreditsRange.Max}
	r.PeerTimeout = p.within("peer-timeout", o.peerTimeout, api.Range{Min: 0, Max: api.PeerTimeoutRange.Max})
	r.PeerCredits = p.within("peer-credits", o.peerCredits, some)
	r.PeerBufferCredits = p.within("peer-buffer-credits", o.peerBufferCredits, some)
	r.Credits = p.within("credits", o.credits, some)
	r.LND, err = o.tunables.read(p, netAddOptionErrors)
	return r, err
}

// within parses a number. If it is invalid or out of range, within prints a warning and returns
// nil, as if the option were not given. -1 selects the default.
func (p *program) within(option, given string, takes api.Range) *int {
	n, ok := p.numberOrNone(option, given)
	switch {
	case !ok || n == api.DriverDefault:
		return nil
	case takes.Check(n) != nil:
		p.warn(fmt.Sprintf("--%s '%s' is not within %s, and is ignored", option, given, takes))
		return nil
	}
	return new(int(n))
}

func (p *program) netDelCommand() *cobra.Command {
	var o niNames
	c := leaf(manual{
		use:   "del {--net NET [--if INTERFACES] | --nid NID}",
		short: "take NIs down",
		long: `Without --if all NIs of the net go. With the last NI of a net the routes by
gateways on it go, and those NIDs of peers that are on it.`,
		example: `lnetdctl net del --net tcp1
lnetdctl net del --net tcp --if eth2
lnetdctl net del --nid 10.1.2.3@tcp2`,
		exits: netExits,
	}, func(ctx context.Context) error {
		var r api.NetDeletion
		if err := p.readNINames(o, netDelErrors, &r.Net, &r.Interfaces, &r.NID); err != nil {
			return err
		}
		if o.net == "" && o.nid == "" {
			return p.invalid(netMissing, -22, netMissingText, "name the net with --net")
		}
		return p.tell(netDelErrors, func(c *client.Client) error { return c.DeleteNet(ctx, r) })
	})
	o.add(c)
	return c
}
