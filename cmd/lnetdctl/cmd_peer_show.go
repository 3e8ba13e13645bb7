package main

import (
	"context"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
	"github.com/lnetd/lnetd/lnet"
)

func (p *program) peerShowCommand() *cobra.Command {
	var o peerFilter
	var level string
	c := leaf(manual{
		use:   "show [--nid NIDS] [--max N] [--verbose [LEVEL]]",
		short: "print peers and their NIDs",
		long: `Prints the NIDs of peers with their states. Level 1, which is also --verbose without a
number, adds credits, statistics, and problems of a NID, if it has any: "not answering
since" with a time, or "link down", which the peer reports. Level 2 adds message counters
by type, and health. Level 3 adds the flags of the peer. Level 4 adds the effects of user
policies. NIDS is a comma list of NIDs or NID ranges, as for ping; any NID of a peer
selects it.`,
		example: `lnetdctl peer show
lnetdctl peer show --nid 10.0.0.1@tcp -v 2
lnetdctl peer show --nid 10.0.0.[1-3]@tcp,10.0.1.7@tcp1`,
		exits: peerExits,
	}, func(ctx context.Context) error {
		return p.showPeers(ctx, "peer", o, verbosityLevel(level), peerDocument)
	})
	c.Flags().StringVarP(&o.nids, "nid", "n", "", "print only the peers with these `NIDS`")
	c.Flags().Uint32VarP(&o.max, "max", "m", 0, "print at most `N` peers (default all)")
	verbosity(c, &level, "`LEVEL` of detail, 0 to 4")
	return p.withRates(c, peerShowErrors, func(ctx context.Context) (counted, error) {
		nids, err := p.filterNIDs(ctx, o)
		return peerCounters(verbosityLevel(level), func(ctx context.Context, c *client.Client, detail int) iter.Seq2[api.Peer, error] {
			return o.of(ctx, c, nids, detail)
		}), err
	})
}

func (p *program) peerListCommand() *cobra.Command {
	return leaf(manual{
		use:     "list",
		short:   "print the primary NIDs of the peers",
		long:    `Includes peers that were added and peers that were discovered, oldest first.`,
		example: "lnetdctl peer list",
		exits:   peerExits,
	}, func(ctx context.Context) error {
		return p.showPeers(ctx, "peer list", peerFilter{}, 0, func(peer *api.Peer, _ int64) mapping {
			return mapping{{"nid", text(peer.Primary.String())}}
		})
	})
}

// peerFilter selects the peers to print: those that have one of the NIDs in nids, or all peers if nids is empty.
// The field max is the maximum number of peers; 0 means that the number is not limited.
type peerFilter struct {
	nids string
	max  uint32
}

// of yields the peers that have one of the given NIDs, up to f.max and without duplicates. The level of detail
// is that of client.EachPeer.
func (f peerFilter) of(ctx context.Context, c *client.Client, nids []string, detail int) iter.Seq2[api.Peer, error] {
	return func(yield func(api.Peer, error) bool) {
		seen := map[lnet.NID]bool{}
		for _, nid := range nids {
			for peer, err := range c.EachPeer(ctx, nid, detail) {
				switch {
				case err == nil && len(nids) > 1 && seen[peer.Primary]:
					continue
				case !yield(peer, err) || err != nil:
					return
				}
				if seen[peer.Primary] = true; f.max > 0 && uint32(len(seen)) == f.max {
					return
				}
			}
		}
	}
}

// filterNIDs returns the NIDs by which f selects peers, or one that is empty for all peers. If it returns an error, it has
// printed it.
func (p *program) filterNIDs(ctx context.Context, f peerFilter) ([]string, error) {
	if !strings.ContainsAny(f.nids, ",[") {
		return []string{f.nids}, nil
	}
	list, err := p.expandNIDs(ctx, f.nids, api.PeerNIDsMax)
	if err != nil {
		return nil, p.badList(peerShowErrors, err)
	}
	nids := make([]string, len(list))
	for k, nid := range list {
		nids[k] = nid.String()
	}
	return nids, nil
}

// showPeers prints the peers that f selects as a list under a key. The function item returns the form of a peer
// at a verbosity level.
func (p *program) showPeers(
	ctx context.Context, key string, f peerFilter, level int64, item func(peer *api.Peer, level int64) mapping,
) error {
	nids, err := p.filterNIDs(ctx, f)
	if err != nil {
		return err
	}
	client := p.client()
	defer client.Close()
	detail := int(min(max(level, 0), api.PeersDetail))
	if p.json {
		detail = api.PeersDetail
	}
	return showList(p, peerShowErrors, listing{layout: wide, key: key}, "peers", f.of(ctx, client, nids, detail),
		func(peer *api.Peer) mapping { return item(peer, level) })
}

// peerDocument returns the item for one peer in the document of "peer show" (lnetctl 5.4). It has the fields
// that are printed at the given verbosity level.
func peerDocument(p *api.Peer, level int64) mapping {
	m := mapping{
		{"primary nid", text(p.Primary.String())},
		{"Multi-Rail", boolean(p.MultiRail)},
	}
	if level >= 3 {
		m = append(m, entry{"peer state", number(uint64(p.State))})
	}
	nis := make(sequence, 0, len(p.NIs))
	for k := range p.NIs {
		nis = append(nis, peerNIDocument(&p.NIs[k], level))
	}
	return append(m, entry{"peer ni", nis})
}

// peerNIDocument returns the mapping for a peer NI in the document of "peer show". It has the fields that are
// printed at the given verbosity level.
func peerNIDocument(i *api.PeerNI, level int64) mapping {
	m := make(mapping, 0, 16)
	m = append(m, entry{"nid", text(i.NID.String())})
	if level >= 4 {
		m = append(m, entry{"udsp info", udspDocument(&i.UDSP)})
	}
	m = append(m, entry{"state", text(i.State)})
	if level >= 1 && i.Trouble != "" { // lnetctl does not print the trouble
		m = append(m, entry{"trouble", text(i.Trouble)})
	}
	if level >= 1 {
		m = append(m,
			entry{"max_ni_tx_credits", number(i.Credits.Max)},
			entry{"available_tx_credits", number(i.Credits.Available)},
			entry{"min_tx_credits", number(i.Credits.Min)},
			entry{"tx_q_num_of_buf", number(i.QueuedBytes)},
			entry{"available_rtr_credits", number(i.RouterCredits.Available)},
			entry{"min_rtr_credits", number(i.RouterCredits.Min)},
			entry{"refcount", number(i.Refs)},
			entry{"statistics", statisticsDocument(&i.Statistics)},
		)
	}
	if level >= 2 {
		m = append(m,
			entry{"sent_stats", countsDocument(&i.Sent)},
			entry{"received_stats", countsDocument(&i.Received)},
			entry{"dropped_stats", countsDocument(&i.Dropped)},
			entry{"health stats", mapping{
				{"health value", number(i.Health.Value)},
				{"dropped", number(i.Health.Dropped)},
				{"timeout", number(i.Health.Timeouts)},
				{"error", number(i.Health.Errors)},
				{"network timeout", number(i.Health.NetworkTimeouts)},
				{"ping_count", number(i.Health.PingCount)},
				{"next_ping", number(i.Health.NextPing)},
			}},
		)
	}
	return m
}
