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

// pingOptions holds the options of the command "ping".
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
		Short: "ping a server from clients, and transfer bulk data both ways",
		Long: `Each client runs a number of loops with a server. A loop has three steps: a message that
the server answers, bulk data that the server writes to the client, and bulk data that it
reads from the client. Received data is checked. A message that cannot be sent is sent
again after 1, 2 and 3 seconds. At the end a table is printed for each transfer machine,
with its six queues.

Without -s and -c, server and clients are both in this process: on the loopback NID of one
node, or, if two NIDs are given, on two nodes. With --through they are two programs of one
lnetd, and use its NIDs. A client alone (-c) needs -I. The text protocol is the one of
Motr's m0lnetping, and m0lnetping can be the other side; this needs --port 988 and the
permission to use that port.

A server alone (-s) reads commands from standard input: an empty line prints the
statistics, "reset_stats" prints and resets them, "quit" or end of input ends the server.

-i, -p and -t are options of clients, -I, -P and -T of the server. LNet drops a message
that is longer than the server's --min-receive-size.`,
		Example: `lnetperf ping -l 3
lnetperf ping --transport mem -d 1M -n 8 -l 100
lnetperf ping -i 127.0.0.2@tcp -I 127.0.0.3@tcp -l 1000 -q --json
lnetperf ping -s -I 10.0.0.1@tcp
lnetperf ping -c -I 10.0.0.1@tcp -n 4 -d 64K
lnetperf ping --through /run/lnetd/lnetd.sock -l 1000 --delivery poll -q`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.async && c.Flags().Changed("delivery") {
				return usage("-A means --delivery async: it cannot be combined with another --delivery")
			}
			return p.ping(c.Context(), &o)
		},
	}
	o.declare(c.Flags())
	return c
}

// declare adds the options to f.
func (o *pingOptions) declare(f *pflag.FlagSet) {
	f.SortFlags = false
	f.BoolVarP(&o.server, "server", "s", false, "run a server (default: both server and clients)")
	f.BoolVarP(&o.client, "client", "c", false, "run clients (default: both server and clients)")
	f.IntVarP(&o.Buffers, "buffers", "b", o.Buffers, "`N` buffers of the server, at least 4 (default 20)")
	f.IntVarP(&o.ReceiveBuffers, "receive-buffers", "B", 0, "`N` of the buffers are for messages, 2 to half of them (default an eighth)")
	f.IntVarP(&o.Loops, "loops", "l", o.Loops, "`N` loops of each client (default 1)")
	f.VarP(&o.bulkSize, "bulk-size", "d", "`SIZE` of bulk data, up to 1M (default: a short text); a server alone grows its buffers if a client has more")
	f.IntVarP(&o.Clients, "clients", "n", o.Clients, "`N` clients at once, 1 to 32 (default 1)")
	f.VarP(&o.delay, "delay", "D", "`TIME` that the server waits before it transfers bulk data")
	f.StringVarP(&o.clientSide.NID, "client-nid", "i", "", "`NID` of the clients (default: the local NID that can reach the server, or 0@lo)")
	f.IntVarP(&o.clientSide.Portal, "client-portal", "p", tmping.Portal, "`PORTAL` of the clients (default 39)")
	f.StringVarP(&o.clientSide.ID, "client-tmid", "t", "*", "transfer machine `ID` of the first client; others have the next ones (default the highest free)")
	f.StringVarP(&o.serverSide.NID, "server-nid", "I", "", "`NID` of the server (default that of the first interface; in one process 0@lo)")
	f.IntVarP(&o.serverSide.Portal, "server-portal", "P", tmping.Portal, "`PORTAL` of the server (default 39)")
	f.StringVarP(&o.serverSide.ID, "server-tmid", "T", fmt.Sprint(tmping.ServerTMID), "transfer machine `ID` of the server (default 12)")
	f.VarP(&o.messageTime, "message-timeout", "o", "timeout of messages and answers: `TIME` (default 5 s)")
	f.VarP(&o.bulkTime, "bulk-timeout", "O", "timeout of bulk data: `TIME` (default 10 s)")
	f.VarP(&o.minReceive, "min-receive-size", "R", "maximum `SIZE` of a message to the server, and minimum free space in a receive buffer (default 100)")
	f.IntVarP(&o.MaxMessages, "max-messages", "M", 0, "`N` messages in a buffer of the server (default as many as fit)")
	f.VarP(&o.messageSize, "message-size", "m", "`SIZE` of the clients' messages (default a short text)")
	f.BoolVarP(&o.async, "async", "A", false, "same as --delivery async")
	f.StringVar(&o.delivery, "delivery", o.delivery, "how the server receives events: `async|sync|poll` (default sync)")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print no tables")
	f.BoolVar(&o.untilSignal, "until-signal", false, "a server alone does not read standard input, and runs until a signal ends it")
	o.add(f)
}

// read validates the options and stores their values in o.Config.
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
		return usage("a client alone needs the NID of the server: use -I")
	case o.transport == "mem" && o.server != o.client:
		return usage("--transport mem reaches only this process: use both -s and -c, or neither")
	}
	return nil
}

func (p *program) ping(ctx context.Context, o *pingOptions) (err error) {
	if err := o.read(); err != nil {
		return err
	}
	run := &tmping.Session{
		Config: o.Config, Client: o.clientSide, Server: o.serverSide,
		OnError: func(err error) { fmt.Fprintf(p.stderr, "lnetperf: %v\n", err) },
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

// pingHosts opens the hosts of the clients and of the server. Both may be the same host. If only one side runs
// in this process, it returns the host of that side twice.
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

// serve runs the server if the clients run in other processes. It returns the server's report when the user
// ends the server with a command on standard input or a signal.
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
			s.ServeCommands(p.stdin,
				func(r tmping.Report) { _ = p.showReports([]tmping.Report{r}, false) },
				func(line string) {
					fmt.Fprintf(p.stderr, "lnetperf: unknown command %q: use quit, reset_stats or an empty line\n", line)
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
