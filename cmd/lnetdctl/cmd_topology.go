package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
	"github.com/lnetd/lnetd/internal/lnetd/topology"
)

// topologyOptions holds the options of the command "topology".
type topologyOptions struct{ format, peers string }

var topologyErrors = errorForm{kind: ownText, exit: exitInvalid, explained: true}

// Numbers of peers in a picture.
const (
	topologyPeers    = 24
	topologyPeersMax = 1000
)

// topologyFormat is a format of the command "topology". If write is nil, it is JSON.
type topologyFormat struct {
	name  string
	write func(p *topology.Picture, w io.Writer) error
}

var topologyFormats = []topologyFormat{
	{"tree", (*topology.Picture).WriteTree},
	{"json", nil},
	{"mermaid", (*topology.Picture).WriteMermaid},
	{"svg", (*topology.Picture).WriteSVGFile},
}

func (p *program) topologyCommand() *cobra.Command {
	var o topologyOptions
	c := leaf(manual{
		use:   "topology [--format FORMAT] [--peers N]",
		short: "print a picture of this node, its nets, peers, gateways and remote nets",
		long: `Prints what this node knows of its LNet, with the state of each part: "ok", "degraded"
if it works and something of it has failed, "down", or "waiting" for a network interface.
Of many peers the picture shows those with problems, gateways and the busiest ones, and
the number of the others.

FORMAT is tree (text), json, mermaid (a flowchart that many wikis display) or svg.`,
		example: `lnetdctl topology
lnetdctl topology --format svg > lnet.svg
lnetdctl topology --format mermaid --peers 8`,
		exits: `0    success
1    help was requested
234  an option is invalid, or lnetd refused the request (-22)
255  lnetd does not answer (-1)`,
	}, func(ctx context.Context) error { return p.topology(ctx, o) })
	f := c.Flags()
	f.StringVarP(&o.format, "format", "f", "tree", "`FORMAT` of the picture: "+topologyFormatNames())
	f.StringVarP(&o.peers, "peers", "n", fmt.Sprint(topologyPeers), fmt.Sprintf("show at most `N` peers, 0 to %d", topologyPeersMax))
	_ = c.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(topologyNames(), cobra.ShellCompDirectiveNoFileComp)) // the option exists
	return c
}

func topologyNames() (names []string) {
	for _, f := range topologyFormats {
		names = append(names, f.name)
	}
	return names
}

// topologyFormatNames returns the names of the formats in a sentence.
func topologyFormatNames() string {
	names := topologyNames()
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

func (p *program) topology(ctx context.Context, o topologyOptions) error {
	if p.json {
		o.format = "json"
	}
	at := slices.IndexFunc(topologyFormats, func(f topologyFormat) bool { return f.name == o.format })
	if at < 0 {
		return fmt.Errorf("option '--format': '%s' is not %s", o.format, topologyFormatNames())
	}
	peers, ok := parseNumber(o.peers)
	if !ok || peers < 0 || peers > topologyPeersMax {
		return fmt.Errorf("option '--peers': '%s' is not a number from 0 to %d", o.peers, topologyPeersMax)
	}
	c := p.client()
	defer c.Close()
	picture, err := readTopology(ctx, c, int(peers))
	switch {
	case err != nil:
		return p.refused(topologyErrors, err)
	case topologyFormats[at].write == nil:
		return p.printJSON(picture)
	}
	return topologyFormats[at].write(picture, p.stdout)
}

// readTopology reads the picture from lnetd. It does not keep the list of peers in memory.
func readTopology(ctx context.Context, c *client.Client, peersMost int) (*topology.Picture, error) {
	nets, err := c.NetsAndWaiting(ctx, "")
	if err != nil {
		return nil, err
	}
	routes, err := c.Routes(ctx, api.AllRoutes)
	if err != nil {
		return nil, err
	}
	routing, err := c.Routing(ctx)
	if err != nil {
		return nil, err
	}
	b := topology.New(nets, routes, routing, peersMost)
	for peer, err := range c.EachPeer(ctx, "", 2) { // 2: with the health of peer NIs
		if err != nil {
			return nil, err
		}
		b.Add(&peer)
	}
	return b.Picture(), nil
}
