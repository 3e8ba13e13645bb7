package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lnetd/lnetd/internal/load/tmhost"
	"github.com/lnetd/lnetd/internal/load/tmping"
)

// pingOptions are the options of ping.
type pingOptions struct {
	hostOptions
	tmping.Config
	server, client            bool
	clientSide, serverSide    tmping.Side
	delay, messageTime        seconds
	bulkTime                  seconds
	bulkSize, messageSize     size
	minReceive                size
	async, quiet, untilSignal bool
	delivery                  string
}

func (p *program) pingCommand() *cobra.Command {
	o := pingOptions{Config: tmping.DefaultConfig(), delivery: "sync"}
	o.messageTime, o.bulkTime = seconds(o.MessageTime), seconds(o.BulkTime)
	c := &cobra.Command{
		Use: "ping [OPTIONS]", DisableFlagsInUseLine: true,
		Short: "ping a server from clients, and move bulk both ways",
		Long: `Has clients do so many loops of three steps with a server: a message that is
answered; bulk that the server brings; bulk that the server fetches. What comes is
checked. A message that cannot be sent is sent again after 1, 2 and 3 seconds. At
the end there is a table for each transfer machine, of its six queues.

Without -s and -c, server and clients are both in this process; then, unless NIDs are
given, they meet on the loopback NID of one node, and with two NIDs on two nodes; with
--through they are two programs to one lnetd, and NIDs are lnetd's. A client alone needs
-I. The text protocol is that of Motr's m0lnetping, with which
either side can talk: over --port 988, and the right to use it.

A server alone obeys its standard input: an empty line shows its figures, "reset_stats"
shows them and starts anew, "quit" and the end of the input end it.

Options of a side begin with -i, -p, -t for clients, and with -I, -P, -T for the server.
LNet drops a message that is longer than the server's --min-receive-size.`,
		Example: `lnetperf ping -l 3
lnetperf ping --transport mem -d 1M -n 8 -l 100
lnetperf ping -i 127.0.0.2@tcp -I 127.0.0.3@tcp -l 1000 -q --json
lnetperf ping -s -I 10.0.0.1@tcp
lnetperf ping -c -I 10.0.0.1@tcp -n 4 -d 64K
lnetperf ping --through /run/lnetd/lnetd.sock -l 1000 --delivery poll -q`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.async && c.Flags().Changed("delivery") {
				return usage("-A is --delivery async: not both")
			}
			return p.ping(c.Context(), &o)
		},
	}
	o.declare(c.Flags())
	return c
}

// declare defines the options.
func (o *pingOptions) declare(f *pflag.FlagSet) {
	f.SortFlags = false
	f.BoolVarP(&o.server, "server", "s", false, "be a server; with -c, or without both, clients are here too")
	f.BoolVarP(&o.client, "client", "c", false, "be clients")
	f.IntVarP(&o.Buffers, "buffers", "b", o.Buffers, "`N` buffers of the server, at least 4 (default 20)")
	f.IntVarP(&o.ReceiveBuffers, "receive-buffers", "B", 0, "`N` of them for messages, 2 to half of them (default an eighth)")
	f.IntVarP(&o.Loops, "loops", "l", o.Loops, "`N` loops of each client (default 1)")
	f.VarP(&o.bulkSize, "bulk-size", "d", "`SIZE` of bulk, up to 1M (default a short text); a server alone makes room when a client has more")
	f.IntVarP(&o.Clients, "clients", "n", o.Clients, "`N` clients at once, 1 to 32 (default 1)")
	f.VarP(&o.delay, "delay", "D", "`TIME` that the server waits before it moves bulk")
	f.StringVarP(&o.clientSide.NID, "client-nid", "i", "", "`NID` of the clients (default that which leads to the server, or 0@lo)")
	f.IntVarP(&o.clientSide.Portal, "client-portal", "p", tmping.Portal, "`PORTAL` of the clients (default 39)")
	f.StringVarP(&o.clientSide.ID, "client-tmid", "t", "*", "transfer machine `ID` of the first client; the others count on (default the highest free)")
	f.StringVarP(&o.serverSide.NID, "server-nid", "I", "", "`NID` of the server (default the first interface's; in one process 0@lo)")
	f.IntVarP(&o.serverSide.Portal, "server-portal", "P", tmping.Portal, "`PORTAL` of the server (default 39)")
	f.StringVarP(&o.serverSide.ID, "server-tmid", "T", fmt.Sprint(tmping.ServerTMID), "transfer machine `ID` of the server (default 12)")
	f.VarP(&o.messageTime, "message-timeout", "o", "`TIME` that a message or an answer may take (default 5 s)")
	f.VarP(&o.bulkTime, "bulk-timeout", "O", "`TIME` that bulk may take (default 10 s)")
	f.VarP(&o.minReceive, "min-receive-size", "R", "`SIZE` of the longest message to the server, and the least room in a buffer (default 100)")
	f.IntVarP(&o.MaxMessages, "max-messages", "M", 0, "`N` messages in a buffer of the server (default as many as fit)")
	f.VarP(&o.messageSize, "message-size", "m", "`SIZE` of the clients' messages (default a short text)")
	f.BoolVarP(&o.async, "async", "A", false, "events come to the server by themselves: --delivery async")
	f.StringVar(&o.delivery, "delivery", o.delivery, "how events come to the server: `async|sync|poll` (default sync)")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "no tables")
	f.BoolVar(&o.untilSignal, "until-signal", false, "a server alone does not read its standard input, and ends by a signal")
	o.add(f)
}

// read parses the options into their Config.
func (o *pingOptions) read() (err error) {
	if !o.server && !o.client {
		o.server, o.client = true, true
	}
	if o.async {
		o.delivery = "async"
	}
	if o.Delivery, err = tmhost.ParseDelivery(o.delivery); err != nil {
		return usage("--%w", err)
	}
	o.BulkSize, o.MessageSize, o.MinReceiveSize = int(o.bulkSize), int(o.messageSize), int(o.minReceive)
	o.Delay, o.MessageTime, o.BulkTime = time.Duration(o.delay), time.Duration(o.messageTime), time.Duration(o.bulkTime)
	if err := o.hostOptions.check(); err != nil {
		return err
	}
	if err := (&tmping.Session{Config: o.Config, Client: o.clientSide, Server: o.serverSide}).Check(); err != nil {
		return usage("%w", err)
	}
	switch {
	case !o.server && o.serverSide.NID == "":
		return usage("a client alone needs the server's NID: -I")
	case o.transport == "mem" && o.server != o.client:
		return usage("--transport mem has server and clients in one process: neither -s nor -c, or both")
	}
	return nil
}

func (p *program) ping(ctx context.Context, o *pingOptions) (err error) {
	if err := o.read(); err != nil {
		return err
	}
	run := &tmping.Session{
		Config: o.Config, Client: o.clientSide, Server: o.serverSide,
		Complain: func(err error) { fmt.Fprintf(p.stderr, "lnetperf: %v\n", err) },
	}
	clients, server, err := p.pingHosts(ctx, o)
	if err != nil {
		return err
	}
	defer finish(&err, clients.Close)
	if server != clients {
		defer finish(&err, server.Close)
	}
	var reports []tmping.Report
	switch {
	case o.server && o.client:
		reports, err = run.Both(ctx, server, clients)
	case o.client:
		reports, err = run.Clients(ctx, clients)
	default:
		reports, err = p.serve(ctx, o, run, server)
	}
	if err != nil {
		return err
	}
	if err := p.showReports(reports, o.quiet); err != nil {
		return err
	}
	if ctx.Err() != nil && o.client {
		return context.Cause(ctx)
	}
	for _, r := range reports {
		if r.Errors > 0 {
			return errCounted
		}
	}
	return nil
}

// pingHosts opens the hosts of the clients and of the server, which may be the same. If only one
// side runs in this process, it returns the host of that side twice.
func (p *program) pingHosts(ctx context.Context, o *pingOptions) (clients, server *tmhost.Host, err error) {
	own, other := o.clientSide.NID, o.serverSide.NID
	poll := o.Delivery == tmhost.Poll
	switch {
	case o.server && o.client:
		if other == "" {
			other = own
		}
		if own == "" {
			own = other
		}
		if own == "" {
			own, other = tmhost.Loopback, tmhost.Loopback
		}
		c := p.config(&o.hostOptions, "", "")
		c.Poll = poll
		return tmhost.OpenPair(ctx, c, own, other)
	case o.client:
		if own == "" && !o.lnetd() {
			own = tmhost.Toward(other)
		}
	default:
		own = other
	}
	c := p.config(&o.hostOptions, own, other)
	c.Poll = poll
	h, err := tmhost.Open(ctx, c)
	return h, h, err
}

// serve runs a server without clients.
func (p *program) serve(ctx context.Context, o *pingOptions, run *tmping.Session, h *tmhost.Host) (reports []tmping.Report, err error) {
	s, err := run.StartServer(ctx, h)
	if err != nil {
		return nil, err
	}
	defer finish(&err, s.Close)
	p.ready("server", s.Address().String())
	told := make(chan struct{})
	if !o.untilSignal {
		go func() {
			defer close(told)
			s.Obey(p.stdin,
				func(r tmping.Report) { _ = p.showReports([]tmping.Report{r}, false) },
				func(line string) {
					fmt.Fprintf(p.stderr, "lnetperf: %q is none of quit, reset_stats, an empty line\n", line)
				})
		}()
	}
	select {
	case <-told:
	case <-ctx.Done():
	}
	return []tmping.Report{s.Report()}, nil
}

func (p *program) showReports(reports []tmping.Report, quiet bool) error {
	if p.json {
		return p.printJSON(reports)
	}
	if quiet {
		return nil
	}
	for k := range reports {
		if k > 0 {
			fmt.Fprintln(p.stdout)
		}
		reports[k].Write(p.stdout)
	}
	return nil
}
