package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
	"github.com/lnetd/lnetd/selftest/report"
)

// statOptions holds the options of the command "stat". They select blocks, lines and columns of the output. If
// the options select no block, all blocks are printed; the same is true for lines and columns (selftest 9).
type statOptions struct {
	bandwidth, rate       bool
	read, write           bool
	avg, least, most      bool
	mbs                   bool
	lnet, rpc             bool
	timeout, delay, count int
}

func (p *program) lstStatCommand() *cobra.Command {
	var o statOptions
	c := p.lstLeaf(manual{
		use:   "stat [OPTIONS] GROUP|IDS...",
		short: "show the traffic of nodes",
		long: `Reads the counters of all nodes every DELAY seconds. For each group or list of NIDs it
prints the rate and bandwidth that its nodes received [R] and sent [W]: the average, the
lowest value above 0, and the highest value, each per node. Rates count LNet messages;
one RPC consists of several messages.`,
		example: "lnetdctl lst stat --bw --delay 1 --count 10 clients servers",
	}, 1, -1, func(ctx context.Context, c *client.Client, key api.LstKey, operands []string) error {
		return p.lstStat(ctx, c, api.LstStat{Key: key, Targets: operands, Timeout: o.timeout}, &o)
	})
	f := c.Flags()
	f.BoolVar(&o.bandwidth, "bw", false, "bandwidth")
	f.BoolVar(&o.rate, "rate", false, "rates")
	f.BoolVar(&o.read, "read", false, "show received traffic")
	f.BoolVar(&o.write, "write", false, "show sent traffic")
	f.BoolVar(&o.avg, "avg", false, "averages")
	f.BoolVar(&o.least, "min", false, "show the minimum")
	f.BoolVar(&o.most, "max", false, "show the maximum")
	f.BoolVar(&o.mbs, "mbs", false, "show bandwidth in MB/s instead of MiB/s")
	f.BoolVar(&o.lnet, "lnet", false, "show LNet messages (default)")
	f.BoolVar(&o.rpc, "rpc", false, "show test RPCs sent and received, and the bulk data that servers transferred")
	f.IntVarP(&o.timeout, "timeout", "t", 5, "wait `SECONDS` for nodes, 3 to 30")
	f.IntVarP(&o.delay, "delay", "d", 5, "read the counters every `SECONDS`")
	f.IntVar(&o.count, "count", -1, "print `COUNT` intervals; -1: until interrupted")
	return c
}

func (p *program) lstStat(ctx context.Context, c *client.Client, r api.LstStat, o *statOptions) error {
	if o.delay < 1 || o.delay > api.LstTimeoutMax || o.timeout < 1 {
		return p.lstFail(api.CodeLstInvalid, -int(syscall.EINVAL), "Invalid parameters list in command line")
	}
	old, err := c.LstStat(ctx, r)
	if err != nil {
		return p.lstStatRefused(err)
	}
	for k := 0; k != max(o.count, -1); k++ {
		if err := p.wait(ctx, time.Duration(o.delay)*time.Second); err != nil {
			return err
		}
		now, err := c.LstStat(ctx, r)
		if err != nil {
			return p.lstStatRefused(err)
		}
		intervals, err := now.Since(old)
		if errors.Is(err, report.ErrGroupChanged) {
			return p.lstFail(api.CodeLstRefused, -int(syscall.EAGAIN), "Group is changed, re-run stat")
		}
		if err != nil {
			return err
		}
		if p.json {
			if err := p.printJSONLine(intervals); err != nil {
				return err
			}
		} else {
			for i := range intervals {
				o.write1(p.stdout, &intervals[i])
			}
		}
		old = now
	}
	return nil
}

// lstStatRefused is like lstRefused for the command "stat". If a target is neither a group nor a NID, it prints
// the messages of Lustre's lst about that.
func (p *program) lstStatRefused(err error) error {
	f := api.FaultOf(err)
	if isErrno(err, syscall.ENOENT) && f.Subject != "" && !p.json {
		fmt.Fprintf(p.stderr, "Invalid nid: %s\n", f.Subject)
		fmt.Fprintf(p.stderr, "Failed to get count of nodes from %s: Success\n", f.Subject)
		return status(exitFailure)
	}
	return p.lstRefused(lstWords{what: "stat", failed: "Failed to stat"}, err)
}

// write1 prints the figures of one target in an interval.
func (o *statOptions) write1(w io.Writer, i *report.Interval) {
	if i.Failed > 0 {
		fmt.Fprintf(w, "Failed to stat on %d nodes\n", i.Failed)
	}
	if o.lnet || !o.rpc {
		if o.rate || !o.bandwidth {
			fmt.Fprintf(w, "[LNet Rates of %s]\n", i.Name)
			o.lines(w, &i.Receive.Rate, &i.Send.Rate, o.rates)
		}
		if o.bandwidth || !o.rate {
			fmt.Fprintf(w, "[LNet Bandwidth of %s]\n", i.Name)
			o.lines(w, &i.Receive.Bandwidth, &i.Send.Bandwidth, o.bandwidths)
		}
	}
	if o.rpc {
		if o.rate || !o.bandwidth {
			fmt.Fprintf(w, "[RPC Rates of %s]\n", i.Name)
			o.lines(w, &i.RPC.Received, &i.RPC.Sent, o.rates)
		}
		if o.bandwidth || !o.rate {
			fmt.Fprintf(w, "[RPC Bulk of %s]\n", i.Name)
			o.lines(w, &i.RPC.BulkGet, &i.RPC.BulkPut, o.bandwidths)
		}
		fmt.Fprintf(w, "[RPC Errors of %s]\nErrors: %d Dropped: %d Expired: %d\n",
			i.Name, i.RPC.Errors, i.RPC.Dropped, i.RPC.Expired)
	}
}

// lines prints the figures in and out on the lines [R] and [W], if the options select these lines. The function
// text formats a figure.
func (o *statOptions) lines(w io.Writer, in, out *report.Figure, text func(*report.Figure) string) {
	if o.read || !o.write {
		fmt.Fprintf(w, "[R] %s\n", text(in))
	}
	if o.write || !o.read {
		fmt.Fprintf(w, "[W] %s\n", text(out))
	}
}

// columns returns the columns of a figure that the options select: the average, the minimum and the maximum.
func (o *statOptions) columns(f *report.Figure, text func(name string, v float64) string) string {
	all := !o.avg && !o.least && !o.most
	var b strings.Builder
	if all || o.avg {
		b.WriteString(text("Avg", f.Avg))
	}
	if all || o.least {
		b.WriteString(text("Min", f.Min))
	}
	if all || o.most {
		b.WriteString(text("Max", f.Max))
	}
	return b.String()
}

func (o *statOptions) rates(f *report.Figure) string {
	return o.columns(f, func(name string, v float64) string {
		if name == "Max" { // no space follows the last column
			return fmt.Sprintf("%s: %-8.0f RPC/s", name, v)
		}
		return fmt.Sprintf("%s: %-8.0f RPC/s ", name, v)
	})
}

func (o *statOptions) bandwidths(f *report.Figure) string {
	unit, per := "MiB/s", float64(1<<20)
	if o.mbs {
		unit, per = "MB/s", 1e6
	}
	return o.columns(f, func(name string, v float64) string {
		return fmt.Sprintf("%s: %-8.2f %-5s ", name, v/per, unit)
	})
}

func (p *program) lstShowErrorCommand() *cobra.Command {
	var session bool
	c := p.lstLeaf(manual{
		use:   "show_error [--session] GROUP|IDS...",
		short: "show the nodes that reported errors",
		long: `Counts requests since the start of the session that failed, or that were answered with
wrong data.`,
		example: "lnetdctl lst show_error clients servers",
	}, 1, -1, func(ctx context.Context, c *client.Client, key api.LstKey, operands []string) error {
		s, err := c.LstStat(ctx, api.LstStat{Key: key, Targets: operands})
		if err != nil {
			return p.lstRefused(lstWords{what: api.FaultOf(err).Subject, failed: "Failed to show errors"}, err)
		}
		troubles := s.Troubles(session)
		if p.json {
			return p.printJSON(troubles)
		}
		for k := range troubles {
			p.lstShowTrouble(&troubles[k], session)
		}
		return nil
	})
	c.Flags().BoolVarP(&session, "session", "s", false, "show only errors of the tests of the session, not of RPCs")
	return c
}

func (p *program) lstShowTrouble(t *report.Trouble, session bool) {
	fmt.Fprintf(p.stdout, "%s:\n", t.Name)
	for k := range t.Unreachable {
		fmt.Fprintf(p.stderr, "RPC failure, can't show error on %s\n", t.Unreachable[k].ID)
	}
	for k := range t.Nodes {
		n := &t.Nodes[k]
		fmt.Fprintf(p.stderr, "%s: [Session %d brw errors, %d ping errors]", n.ID, n.BRWErrors, n.PingErrors)
		if !session {
			fmt.Fprintf(p.stderr, " [RPC: %d errors, %d dropped, %d expired]", n.Errors, n.Dropped, n.Expired)
		}
		fmt.Fprintln(p.stderr)
	}
	fmt.Fprintf(p.stdout, "Total %d error nodes in %s\n", t.Total(), t.Name)
}
