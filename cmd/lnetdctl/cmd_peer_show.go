package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/control/api"
)

func (p *program) peerShowCommand() *cobra.Command {
	var nid, level string
	c := leaf(manual{
		use:   "show [--nid NID] [--verbose [LEVEL]]",
		short: "print the peers and their NIDs",
		long: `Without --verbose the NIDs and their states are printed. Level 1, which
--verbose without a number means, adds credits, statistics, and what speaks
against a NID, if anything does: "not answering since" a time, or "link down",
as its node says; level 2 messages by type and health; level 3 the peer's
flags; level 4 what user policies did. NID may be any of the peer's.`,
		example: `lnetdctl peer show
lnetdctl peer show --nid 10.0.0.1@tcp -v 2`,
		exits: peerExits,
	}, func(ctx context.Context) error {
		return p.showPeers(ctx, "peer", nid, verbosityLevel(level), peerDocument)
	})
	c.Flags().StringVarP(&nid, "nid", "n", "", "print the peer that has this `NID` only")
	verbosity(c, &level, "`LEVEL` of detail, 0 to 4")
	return c
}

func (p *program) peerListCommand() *cobra.Command {
	return leaf(manual{
		use:     "list",
		short:   "print the primary NIDs of the peers",
		long:    `Those of peers that were added and of peers that were discovered, the oldest first.`,
		example: "lnetdctl peer list",
		exits:   peerExits,
	}, func(ctx context.Context) error {
		return p.showPeers(ctx, "peer list", "", 0, func(peer *api.Peer, _ int64) mapping {
			return mapping{{"nid", text(peer.Primary.String())}}
		})
	})
}

// showPeers prints all peers, or the one that has the NID, as the items of a
// list.
func (p *program) showPeers(
	ctx context.Context, key, nid string, level int64, item func(peer *api.Peer, level int64) mapping,
) error {
	client := p.client()
	defer client.Close()
	out := listing{layout: wide, key: key}
	detail := int(min(max(level, 0), api.PeersDetail))
	if p.json {
		out.key, out.json, detail = "peers", true, api.PeersDetail
	}
	return showList(p, peerShowErrors, out, client.EachPeer(ctx, nid, detail),
		func(peer *api.Peer) mapping { return item(peer, level) })
}

// peerDocument is an item of the document of "peer show" (lnetctl 5.4).
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

// peerNIDocument holds of one NID what the level shows.
func peerNIDocument(i *api.PeerNI, level int64) mapping {
	m := make(mapping, 0, 16)
	m = append(m, entry{"nid", text(i.NID.String())})
	if level >= 4 {
		m = append(m, entry{"udsp info", udspDocument(&i.UDSP)})
	}
	m = append(m, entry{"state", text(i.State)})
	if level >= 1 && i.Trouble != "" { // no word of lnetctl's
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
