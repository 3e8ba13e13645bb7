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
	// netAddOptionErrors is the form of errors about invalid options of "net add" (lnetctl 4.2).
	netAddOptionErrors = errorForm{kind: oldDocument, op: "ni", entity: "add"}
)

// netMissingText is lnetctl's message if a command lacks the net.
const netMissingText = "missing mandatory parameters in NI config: 'network'"

const netExits = `0    success
1    help was requested
234  NIs cannot be added or deleted like this, or the options are invalid (-22)
255  an option has an invalid value, or lnetd does not answer (-1)`

// niNames holds the options that name NIs.
type niNames struct {
	net, nid   string
	interfaces cli.List
}

func (o *niNames) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVarP(&o.net, "net", "n", "", "the `NET`, such as tcp or tcp1")
	f.VarP(&o.interfaces, "if", "i", "comma list of `INTERFACES`; may be repeated")
	f.StringVar(&o.nid, "nid", "", "`NID` of the NI, instead of a net and interfaces")
}

// readNINames parses the options that name NIs and stores the values in net, names and nid. It does not change
// the variable of an option that is not given. If it returns an error, it has printed it.
func (p *program) readNINames(o niNames, form errorForm, net *lnet.Net, names *[]string, nid *lnet.NID) error {
	if o.net != "" && o.nid != "" {
		return p.invalid(netMissing, -22, "--net is invalid with --nid option", "the NID already contains its net")
	}
	var err error
	if o.net != "" {
		if *net, err = named(p, o.net, lnet.ParseNet); err != nil {
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

// netAddOptions holds the options of "net add".
type netAddOptions struct {
	niNames
	ip2nets                                              string
	peerTimeout, peerCredits, peerBufferCredits, credits string
	cpt, proxy                                           string
	tunables                                             tunableOptions
	authKey, trafficClass                                string
	skipRoutes                                           bool
}

func (p *program) netAddCommand() *cobra.Command {
	var o netAddOptions
	c := leaf(manual{
		use:   "add {--net NET {--if INTERFACES | --proxy NAME} | --nid NID | --ip2net RULES} [TUNABLES]",
		short: "add NIs",
		long: `Adds an NI to the net for each interface. The net is created if it does not exist. Either
all NIs are added or none. An interface may have a CPT list, such as eth0[0,1]. With
--nid, lnetd uses the interface that has the address. RULES has the syntax of the module
parameter ip2nets.

The first NI of a net determines the peer timeout and peer credits for the others. A
number that is invalid or out of range is ignored, except in tunables of drivers. Routes
of the host are not changed; see setup-mrrouting.

The NIs of some nets are served by proxies, which are programs that connect to lnetd; the
configuration names the types of these nets. With --proxy, only programs that give
themselves this NAME may serve the NI, and without --if the NI gets the first address of
the host. "clients" prints the proxies.`,
		example: `lnetdctl net add --net tcp1 --if eth1
lnetdctl net add --net tcp --if eth0,eth2 --peer-credits 16 --credits 512
lnetdctl net add --nid 10.1.2.3@tcp2
lnetdctl net add --net mpi --proxy mpi`,
		exits: netExits,
	}, func(ctx context.Context) error { return p.netAdd(ctx, o) })
	o.add(c)
	f := c.Flags()
	f.StringVarP(&o.ip2nets, "ip2net", "p", "", "`RULES` that select nets by IP address, at most 127 characters")
	f.StringVarP(&o.peerTimeout, "peer-timeout", "t", "", "treat a peer as down after `SECONDS` without a message from it; 0: never")
	f.StringVarP(&o.peerCredits, "peer-credits", "c", "", "maximum `NUMBER` of messages in flight to one peer")
	f.StringVarP(&o.peerBufferCredits, "peer-buffer-credits", "b", "", "maximum `NUMBER` of router buffers that one peer may use")
	f.StringVarP(&o.credits, "credits", "r", "", "maximum `NUMBER` of messages in flight on the NI")
	f.StringVarP(&o.cpt, "cpt", "s", "", "`LIST` of the CPU partitions of the NI, such as [0,1]")
	f.StringVar(&o.proxy, "proxy", "", "`NAME` of the proxies that may serve the NI")
	o.tunables.add(c, false)
	f.BoolVarP(&o.skipRoutes, "skip-mr-route-setup", "k", false, "has no effect: lnetd never changes the routes of the host by itself")
	f.StringVarP(&o.authKey, "auth-key", "a", "", "has no effect: `KEY` is for kfi nets")
	f.StringVarP(&o.trafficClass, "traffic-class", "T", "", "has no effect: `CLASS` is for kfi nets")
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
	case o.net != "" && len(r.Interfaces) == 0 && o.proxy == "":
		return r, p.invalid(netMissing, -22, "creating a local NI needs at least one interface", "name it with --if")
	case len(o.ip2nets) > ip2netsMax:
		return r, p.invalid(netAddErrors, -7, "ip2net string is too long", "write the rules into a configuration file and import it")
	}
	r.IP2Nets, r.CPT, r.Proxy = o.ip2nets, o.cpt, o.proxy
	some := api.Range{Min: 1, Max: api.CreditsRange.Max}
	r.PeerTimeout = p.within("peer-timeout", o.peerTimeout, api.Range{Min: 0, Max: api.PeerTimeoutRange.Max})
	r.PeerCredits = p.within("peer-credits", o.peerCredits, some)
	r.PeerBufferCredits = p.within("peer-buffer-credits", o.peerBufferCredits, some)
	r.Credits = p.within("credits", o.credits, some)
	r.LND, err = o.tunables.read(p, netAddOptionErrors)
	return r, err
}

// within parses the value of an option, which must be a number in the range takes. It returns nil, which means
// the default, for -1 and if the option is not given. For an invalid value, it also prints a warning.
func (p *program) within(option, given string, takes api.Range) *int {
	n, ok := p.numberOrNone(option, given)
	switch {
	case !ok || n == api.DriverDefault:
		return nil
	case takes.Check(n) != nil:
		p.warn(fmt.Sprintf("--%s '%s' is ignored: it is not within %s", option, given, takes))
		return nil
	}
	return new(int(n))
}

func (p *program) netDelCommand() *cobra.Command {
	var o niNames
	c := leaf(manual{
		use:   "del {--net NET [--if INTERFACES] | --nid NID}",
		short: "delete NIs",
		long: `Without --if, all NIs of the net are deleted. When the last NI of a net is deleted, the
routes through gateways on that net and the NIDs of peers on that net are deleted too.`,
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
