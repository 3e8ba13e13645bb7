package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
	"github.com/lnetd/lnetd/lnet"
)

// netShowOptions holds the options of "net show".
type netShowOptions struct {
	net     string
	verbose string
	up      bool
}

func (p *program) netShowCommand() *cobra.Command {
	var o netShowOptions
	c := leaf(manual{
		use:   "show [--net NETS] [--up] [--verbose [LEVEL]]",
		short: "print nets and NIs",
		long: `Prints the NIDs with their status and interfaces. Level 1, which is also --verbose
without a number, adds statistics, tunables and the reason why an NI is down. Level 2
adds message counters by type, and health. Level 4 adds the effects of user policies. NIs
that wait for their interface are listed in warnings, and in the output of --json. The
command fails if all NIs of the given nets are waiting.

With --up the command is a readiness probe: it fails if no NI except 0@lo is up, or, with
--net, if no NI of those nets is up.`,
		example: `lnetdctl net show
lnetdctl net show --net tcp1 -v 2
lnetdctl net show --net tcp,o2ib`,
		exits: `0    success
1    help was requested
156  --up was given, and no NI is up (-100)
234  the net does not exist, or the options are invalid (-22)
255  lnetd does not answer (-1)`,
	}, func(ctx context.Context) error { return p.netShow(ctx, o) })
	c.Flags().StringVarP(&o.net, "net", "n", "", "print only the `NETS` of this comma list")
	c.Flags().BoolVarP(&o.up, "up", "u", false, "fail unless an NI is up")
	verbosity(c, &o.verbose, "`LEVEL` of detail, 0 to 4")
	return p.withRates(c, netShowErrors(o), func(context.Context) (counted, error) {
		return niCounters(verbosityLevel(o.verbose), func(ctx context.Context, c *client.Client) (api.Nets, error) {
			return netsOf(ctx, c, o.net)
		}), nil
	})
}

func netShowErrors(o netShowOptions) errorForm {
	return errorForm{op: "show", entity: "net", byErrno: o.up, explained: o.up}
}

func (p *program) netShow(ctx context.Context, o netShowOptions) error {
	return show(p, netShowErrors(o), wide,
		func(c *client.Client) (api.Nets, error) {
			nets, err := netsOf(ctx, c, o.net)
			switch {
			case err != nil:
			case o.up && !anyUp(&nets):
				err = noneUp(&nets)
			case len(nets.Nets) == 0:
				p.warnOfWaiting(&nets)
				err = allWait()
			}
			return nets, err
		},
		func(nets api.Nets) any { return nets },
		func(nets api.Nets) mapping {
			p.warnOfWaiting(&nets)
			return netDocument(nets.Nets, verbosityLevel(o.verbose))
		})
}

// netsOf returns the nets in a comma-separated list, in order, and the NIs on them that wait for their
// interfaces. An empty list means all nets.
func netsOf(ctx context.Context, c *client.Client, list string) (all api.Nets, err error) {
	seen := map[lnet.Net]bool{}
	for _, name := range splitList(list) {
		if name == "" {
			name = list // lnetd rejects the whole list as the name of a net
		}
		nets, err := c.NetsAndWaiting(ctx, name)
		if err != nil {
			return api.Nets{}, err
		}
		for k := range nets.Nets {
			if n := &nets.Nets[k]; !seen[n.Net] {
				seen[n.Net] = true
				all.Nets = append(all.Nets, *n)
			}
		}
		for k := range nets.Waiting {
			if w := &nets.Waiting[k]; !slices.ContainsFunc(all.Waiting, func(o api.WaitingNI) bool { return o.Place == w.Place }) {
				all.Waiting = append(all.Waiting, *w)
			}
		}
	}
	return all, nil
}

// anyUp reports whether an NI other than 0@lo is up.
func anyUp(nets *api.Nets) bool {
	return slices.ContainsFunc(nets.Nets, func(n api.Net) bool {
		return n.Net != lnet.LoNet && slices.ContainsFunc(n.NIs, func(i api.NI) bool { return i.Status == "up" })
	})
}

// noneUp returns the error that no NI is up. It names the NIs that wait for their interfaces, with the reasons.
func noneUp(nets *api.Nets) error {
	var waits []string
	for k := range nets.Waiting {
		waits = append(waits, waitingText(&nets.Waiting[k]))
	}
	return &api.Fault{
		Code: api.CodeNetworkDown, Errno: -int(unix.ENETDOWN), Text: "no NI is up",
		Cause: strings.Join(waits, "; "), Remedy: "lnetdctl net show -v shows why NIs are down",
	}
}

// allWait returns the error of "net show" for nets on which all NIs wait for their interfaces. It is the error
// of kernels for a net that does not exist, because kernels do not have waiting NIs.
func allWait() error {
	return &api.Fault{
		Code: api.CodeNetAbsent, Errno: -int(unix.ESRCH), Text: "Network is down", Cause: "no NI of these nets is up: all are waiting for their interfaces",
		Remedy: "an NI comes up when its interface can be used; lnetdctl net del deletes it",
	}
}

// warnOfWaiting prints a warning for each NI that waits for its interface.
func (p *program) warnOfWaiting(nets *api.Nets) {
	for k := range nets.Waiting {
		p.warn(waitingText(&nets.Waiting[k]))
	}
}

// waitingText returns a text that names an NI that waits for its interface, and the reason.
func waitingText(w *api.WaitingNI) string {
	what := w.Interface
	if what == "" {
		what = w.NID.String()
	}
	return fmt.Sprintf("%s on %s is waiting: %s", what, w.Net, w.Cause)
}

// netDocument returns the document of "net show" (lnetctl 5.1).
func netDocument(nets []api.Net, level int64) mapping {
	list := sequence{}
	for i := range nets {
		list = append(list, netItem(&nets[i], level))
	}
	return mapping{{"net", list}}
}

// netItem returns the item for one net in the document of "net show".
func netItem(n *api.Net, level int64) mapping {
	nis := sequence{}
	for j := range n.NIs {
		nis = append(nis, niDocument(&n.NIs[j], level))
	}
	return mapping{{"net type", text(n.Net.String())}, {"local NI(s)", nis}}
}

// niDocument returns the mapping for an NI in the document of "net show". It has the fields that are printed at
// the given verbosity level.
func niDocument(ni *api.NI, level int64) mapping {
	m := mapping{{"nid", text(ni.NID.String())}, {"status", text(ni.Status)}}
	if ni.NID.IsZero() { // the NI is not up, and its NID is not configured
		m = m[1:]
	}
	if len(ni.Interfaces) > 0 {
		names := mapping{}
		for i, name := range ni.Interfaces {
			names = append(names, entry{strconv.Itoa(i), text(name)})
		}
		m = append(m, entry{"interfaces", names})
	}
	if ni.Proxy != "" { // lnetctl knows no proxies
		m = append(m, entry{"proxy", text(ni.Proxy)})
	}
	if level >= 1 && ni.Reason != "" { // lnetctl does not print the reason
		m = append(m, entry{"status reason", text(ni.Reason)})
	}
	if level >= 1 {
		m = append(m, entry{"statistics", statisticsDocument(&ni.Statistics)})
	}
	if level >= 4 {
		m = append(m, entry{"udsp info", udspDocument(&ni.UDSP)})
	}
	if level >= 2 {
		m = append(m,
			entry{"sent_stats", countsDocument(&ni.Sent)},
			entry{"received_stats", countsDocument(&ni.Received)},
			entry{"dropped_stats", countsDocument(&ni.Dropped)},
			entry{"health stats", healthDocument(&ni.Health)},
		)
	}
	if level < 1 {
		return m
	}
	m = append(m, entry{"tunables", mapping{
		{"peer_timeout", number(ni.Tunables.PeerTimeout)},
		{"peer_credits", number(ni.Tunables.PeerCredits)},
		{"peer_buffer_credits", number(ni.Tunables.PeerBufferCredits)},
		{"credits", number(ni.Tunables.Credits)},
	}})
	if len(ni.LND) > 0 {
		m = append(m, entry{"lnd tunables", tunablesDocument(ni.LND)})
	}
	return append(m,
		entry{"dev cpt", number(ni.DevCPT)},
		entry{"CPT", quoted(ni.CPT)},
	)
}

// tunablesDocument returns the tunables of a driver as a mapping.
func tunablesDocument(list []api.Tunable) (m mapping) {
	for _, t := range list {
		value := number(t.Value)
		if t.Truth {
			value = boolean(t.Value != 0)
		}
		m = append(m, entry{t.Name, value})
	}
	return m
}

func statisticsDocument(s *api.Statistics) mapping {
	return mapping{
		{"send_count", number(s.Sent)},
		{"recv_count", number(s.Received)},
		{"drop_count", number(s.Dropped)},
		{"put_egress_samples", number(s.PutEgress.Samples)},
		{"put_egress_min_nsec", number(s.PutEgress.Min)},
		{"put_egress_max_nsec", number(s.PutEgress.Max)},
		{"put_egress_avg_nsec", number(s.PutEgress.Avg)},
		{"get_rtt_samples", number(s.GetRTT.Samples)},
		{"get_rtt_min_nsec", number(s.GetRTT.Min)},
		{"get_rtt_max_nsec", number(s.GetRTT.Max)},
		{"get_rtt_avg_nsec", number(s.GetRTT.Avg)},
		{"put_ack_samples", number(s.PutAck.Samples)},
		{"put_ack_min_nsec", number(s.PutAck.Min)},
		{"put_ack_max_nsec", number(s.PutAck.Max)},
		{"put_ack_avg_nsec", number(s.PutAck.Avg)},
	}
}

func udspDocument(u *api.UDSPInfo) mapping {
	m := mapping{
		{"net priority", number(u.NetPriority)},
		{"nid priority", number(u.NIDPriority)},
	}
	for _, list := range []struct {
		name string
		nids []lnet.NID
	}{{"Preferred gateway NIDs", u.PreferredGateways}, {"Preferred source NIDs", u.PreferredSources}} {
		if len(list.nids) == 0 {
			continue
		}
		nids := mapping{}
		for i, nid := range list.nids {
			nids = append(nids, entry{"NID-" + strconv.Itoa(i), text(nid.String())})
		}
		m = append(m, entry{list.name, nids})
	}
	return m
}

func countsDocument(c *api.MessageCounts) mapping {
	return mapping{
		{"put", number(c.Put)},
		{"get", number(c.Get)},
		{"reply", number(c.Reply)},
		{"ack", number(c.Ack)},
		{"hello", number(c.Hello)},
	}
}

func healthDocument(h *api.HealthStats) mapping {
	return mapping{
		{"fatal_error", number(h.FatalError)},
		{"health value", number(h.Value)},
		{"interrupts", number(h.Interrupts)},
		{"dropped", number(h.Dropped)},
		{"aborted", number(h.Aborted)},
		{"no route", number(h.NoRoute)},
		{"timeouts", number(h.Timeouts)},
		{"error", number(h.Errors)},
		{"ping_count", number(h.PingCount)},
		{"next_ping", number(h.NextPing)},
	}
}
