package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/control"
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
		return show(p, peerShowErrors, wide,
			func(c *control.Client) ([]control.Peer, error) { return c.Peers(ctx, nid) },
			func(peers []control.Peer) any { return control.Peers{Peers: peers} },
			func(peers []control.Peer) mapping { return peersDocument(peers, verbosityLevel(level)) })
	})
	c.Flags().StringVarP(&nid, "nid", "n", "", "print the peer that has this `NID` only")
	verbosity(c, &level, "`LEVEL` of detail, 0 to 4")
	return c
}

func (p *program) peerListCommand() *cobra.Command {
	return leaf(manual{
		use:     "list",
		short:   "print the primary NIDs of the peers",
		example: "lnetdctl peer list",
		exits:   peerExits,
	}, func(ctx context.Context) error {
		return show(p, peerShowErrors, wide,
			func(c *control.Client) ([]control.Peer, error) { return c.Peers(ctx, "") },
			func(peers []control.Peer) any { return control.Peers{Peers: peers} },
			func(peers []control.Peer) mapping {
				var list sequence
				for i := range peers {
					list = append(list, mapping{{"nid", text(peers[i].Primary.String())}})
				}
				return section("peer list", list)
			})
	})
}

// peersDocument is the document of "peer show" (lnetctl 5.4).
func peersDocument(peers []control.Peer, level int64) mapping {
	var list sequence
	for i := range peers {
		p := &peers[i]
		m := mapping{
			{"primary nid", text(p.Primary.String())},
			{"Multi-Rail", boolean(p.MultiRail)},
		}
		if level >= 3 {
			m = append(m, entry{"peer state", number(uint64(p.State))})
		}
		nis := sequence{}
		for j := range p.NIs {
			nis = append(nis, peerNIDocument(&p.NIs[j], level))
		}
		list = append(list, append(m, entry{"peer ni", nis}))
	}
	return section("peer", list)
}

// peerNIDocument holds of one NID what the level shows.
func peerNIDocument(i *control.PeerNI, level int64) mapping {
	m := mapping{{"nid", text(i.NID.String())}}
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
