package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/load/nettest"
	"github.com/lnetd/lnetd/internal/load/nettest/figures"
	"github.com/lnetd/lnetd/internal/load/nettest/message"
	"github.com/lnetd/lnetd/internal/load/tmhost"
)

// The default IDs of the console's transfer machines (transport 10.3).
const (
	consoleForClients = 298
	consoleForServers = 299
)

// Default timeouts of a message and of a bulk transfer.
const (
	pingTimeout = 3 * time.Second
	bulkTimeout = 10 * time.Second
)

// consoleOptions holds the options of the command "console".
type consoleOptions struct {
	hostOptions
	nettest.ConsoleConfig
	kind                             string
	size, bufferSize                 size
	time, timeout, commandTime       seconds
	delivery                         string
	parsable, list                   bool
	local, clientNID, serverNID, nid string
}

func (p *program) consoleCommand() *cobra.Command {
	o := consoleOptions{delivery: "sync", commandTime: seconds(nettest.CommandTime)}
	c := &cobra.Command{
		Use: "console -C SERVERS -D DATA -c CLIENTS -d DATA -t TYPE [OPTIONS]", DisableFlagsInUseLine: true,
		Short: "control a test in which nodes exchange messages or bulk data",
		Long: `Sends commands to test nodes, prints the progress every second, and at the end the
counters of clients and servers. Each client exchanges messages with each server.

With "ping", clients send messages, and servers send them back. With "bulk", a client
sends descriptors of pairs of buffers, several pairs in one message; the server reads one
buffer of each pair and writes the other. -B, -b, -f and -g are required. A message or
transfer that times out is repeated up to 5 times.

-C and -c are the command end points of the nodes, as given to "lnetperf node". -D and -d
are the data end points, one per node. All are comma lists. With --local the nodes are in
this process: on two LNet nodes if NIDs for both sides are given, otherwise on one node or
in memory, or with --through as two programs of one lnetd. An interrupt ends the test
cleanly.`,
		Example: `lnetperf console -t ping -n 100000 -s 4K --local 1x1
lnetperf console -t bulk -n 64 -s 1M -B 32 -b 16 -f 16K -g 8 --verify --local 2x2 --client-nid 127.0.0.2@tcp --server-nid 127.0.0.3@tcp
lnetperf console -t ping -T 5 -s 4K -C 10.0.0.1@tcp:12345:42:326 -D 10.0.0.1@tcp:12345:42:334 -c 10.0.0.2@tcp:12345:42:300 -d 10.0.0.2@tcp:12345:42:318`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return p.console(c.Context(), &o) },
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVarP(&o.kind, "type", "t", "", "`ping|bulk`")
	f.Uint64VarP(&o.Test.Count, "number", "n", 0, "`N` messages or transfers from each client to each server; optional with -T")
	f.VarP(&o.time, "time", "T", "start no more messages or transfers after `TIME` (default: no limit)")
	f.VarP(&o.size, "size", "s", "`SIZE` of a message (32 to 1M) or transfer (up to 1M)")
	f.StringVarP(&o.Servers.Console, "server-console", "A", "", "local end point `ADDRESS` for commands to servers (default 299 of the local NID)")
	f.StringVarP(&o.Clients.Console, "client-console", "a", "", "local end point `ADDRESS` for commands to clients (default 298 of the local NID)")
	f.StringSliceVarP(&o.Servers.Commands, "server-commands", "C", nil, "command end points of servers: a comma list of `ADDRESSES`")
	f.StringSliceVarP(&o.Clients.Commands, "client-commands", "c", nil, "command end points of clients: a comma list of `ADDRESSES`")
	f.StringSliceVarP(&o.Servers.Data, "server-data", "D", nil, "data end points of servers: a comma list of `ADDRESSES`")
	f.StringSliceVarP(&o.Clients.Data, "client-data", "d", nil, "data end points of clients: a comma list of `ADDRESSES`")
	f.IntVarP(&o.Servers.Concurrency, "server-concurrency", "E", 16, "`N` concurrent messages or transfers per client that a server can hold (default 16)")
	f.IntVarP(&o.Clients.Concurrency, "client-concurrency", "e", 8, "`N` messages or transfers that a client keeps in flight to each server (default 8)")
	f.IntVarP(&o.Servers.Buffers, "server-buffers", "B", 0, "`N` messages with descriptors that a server can hold")
	f.IntVarP(&o.Clients.Buffers, "client-buffers", "b", 0, "`N` messages with descriptors that a client keeps in flight")
	f.VarP(&o.bufferSize, "buffer-size", "f", "maximum `SIZE` of a message with descriptors")
	f.IntVarP(&o.Test.Descriptors, "descriptors", "g", 0, "at most `N` descriptors in a message, 2 per transfer")
	f.BoolVar(&o.Test.Verify, "verify", false, "compare received bulk data with the data that was sent")
	f.IntVar(&o.Test.Messages, "messages", 1, "`N` messages that fit in a receive buffer (default 1)")
	f.StringVar(&o.delivery, "delivery", o.delivery, "how nodes receive events: `async|sync|poll` (default sync)")
	f.Var(&o.timeout, "timeout", "timeout of a message or transfer: `TIME` (default 3 s, bulk 10 s)")
	f.Var(&o.commandTime, "command-timeout", "timeout of answers of nodes: `TIME` (default 10 s)")
	f.BoolVarP(&o.parsable, "parsable", "p", false, "also print lines that programs can parse")
	f.StringVar(&o.local, "local", "", "`CxS`: run C clients and S servers in this process, instead of -C, -D, -c and -d")
	f.StringVar(&o.clientNID, "client-nid", tmhost.Loopback, "with --local, `NID` of the clients' node (default 0@lo)")
	f.StringVar(&o.serverNID, "server-nid", "", "with --local, `NID` of the servers' node (default the clients')")
	f.BoolVarP(&o.list, "list", "l", false, "print the limits of buffers and the NIDs, and exit")
	o.add(f)
	return c
}

// read validates the options and stores their values in o.ConsoleConfig.
func (o *consoleOptions) read() error {
	if _, err := tmhost.ParseDelivery(o.delivery); err != nil {
		return usage("--%w", err)
	}
	o.Servers.Delivery, o.Clients.Delivery = o.delivery, o.delivery
	t := &o.Test
	t.Kind, t.Size, t.BufferSize = message.Kind(o.kind), int(o.size), int(o.bufferSize)
	t.Time, t.Timeout, o.CommandTime = time.Duration(o.time), time.Duration(o.timeout), time.Duration(o.commandTime)
	if t.Timeout == 0 {
		t.Timeout = pingTimeout
		if t.Kind == message.Bulk {
			t.Timeout = bulkTimeout
		}
	}
	if o.local == "" && o.transport == "mem" {
		return usage("--transport mem reaches only this process: use it with --local")
	}
	return nil
}

func (p *program) console(ctx context.Context, o *consoleOptions) (err error) {
	if err := o.check(); err != nil {
		return err
	}
	if o.list {
		return p.listLimits(ctx, p.config(&o.hostOptions, nidOf(o.Servers.Console), ""))
	}
	if err := o.read(); err != nil {
		return err
	}
	if o.local != "" {
		return p.consoleAndNodes(ctx, o)
	}
	if err := o.ConsoleConfig.Check(); err != nil {
		return usage("%w", err)
	}
	if err := o.place(); err != nil {
		return err
	}
	h, err := tmhost.Open(ctx, p.config(&o.hostOptions, o.nid, nidOf(o.Servers.Commands[0])))
	if err != nil {
		return err
	}
	defer finish(&err, h.Close)
	o.Domain = h.Domain
	if o.Servers.Console == "" {
		o.Servers.Console = fmt.Sprintf("%s:12345:%d:%d", h.NID, nettest.Portal, consoleForServers)
	}
	if o.Clients.Console == "" {
		o.Clients.Console = fmt.Sprintf("%s:12345:%d:%d", h.NID, nettest.Portal, consoleForClients)
	}
	return p.runTest(ctx, o)
}

// place determines the NID of the console from the addresses of its transfer machines.
func (o *consoleOptions) place() error {
	for _, s := range []string{o.Servers.Console, o.Clients.Console} {
		if s == "" {
			continue
		}
		if err := checkAddresses(s); err != nil {
			return err
		}
	}
	a, b := nidOf(o.Servers.Console), nidOf(o.Clients.Console)
	switch {
	case a != "" && o.Servers.Console == o.Clients.Console:
		return usage("-A and -a are the same end point: %s", o.Servers.Console)
	case a != "" && b != "" && a != b:
		return usage("-A and -a have different NIDs: %s, %s", a, b)
	case a != "":
		o.nid = a
	case b != "":
		o.nid = b
	case !o.lnetd():
		o.nid = tmhost.Toward(nidOf(o.Servers.Commands[0]))
	}
	return nil
}

// consoleAndNodes performs "console --local": it starts test nodes in this process and runs a test with them.
func (p *program) consoleAndNodes(ctx context.Context, o *consoleOptions) (err error) {
	var clients, servers int
	if n, _ := fmt.Sscanf(o.local, "%dx%d", &clients, &servers); n != 2 || fmt.Sprintf("%dx%d", clients, servers) != o.local ||
		clients < 1 || servers < 1 || clients > nettest.LocalMax || servers > nettest.LocalMax {
		return usage("--local %q is not of the form CxS, such as 2x3, up to %[2]dx%[2]d", o.local, nettest.LocalMax)
	}
	if len(o.Servers.Commands)+len(o.Clients.Commands)+len(o.Servers.Data)+len(o.Clients.Data) > 0 {
		return usage("--local runs nodes in this process: it cannot be combined with -C, -D, -c or -d")
	}
	// Check numbers and sizes first. They do not depend on the nodes' addresses.
	check := o.ConsoleConfig
	check.Servers.Commands = []string{"0@lo:12345:42:1"}
	check.Servers.Data, check.Clients.Commands, check.Clients.Data = check.Servers.Commands, check.Servers.Commands, check.Servers.Commands
	if err := check.Check(); err != nil {
		return usage("%w", err)
	}
	c := p.config(&o.hostOptions, "", "")
	c.Poll = o.delivery == tmhost.Poll.String()
	client, server, err := tmhost.OpenPair(ctx, c, o.clientNID, o.serverNID)
	if err != nil {
		return err
	}
	defer finish(&err, client.Close)
	if server != client {
		defer finish(&err, server.Close)
	}
	l, err := nettest.StartLocal(ctx, servers, clients, server, client, &o.ConsoleConfig, p.logger())
	if err != nil {
		return err
	}
	defer finish(&err, l.Close)
	return p.runTest(ctx, o)
}

// runTest runs the test and prints the results.
func (p *program) runTest(ctx context.Context, o *consoleOptions) error {
	o.Progress = p.progress
	r, err := nettest.Run(ctx, o.ConsoleConfig)
	if p.terminal && !p.json && !r.Start.IsZero() {
		fmt.Fprintln(p.stderr)
	}
	if p.json {
		if err := p.printJSON(r.Document(err)); err != nil {
			return err
		}
	} else if err == nil || r.Clients.Sent.Total > 0 {
		r.Write(p.stdout)
		if o.parsable {
			r.WriteParsable(p.stdout)
		}
	}
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case r.Failures() > 0:
		return errCounted
	}
	return nil
}

// progress prints the progress of a test. On a terminal it overwrites one line.
func (p *program) progress(elapsed time.Duration, f *figures.Figures) {
	line := nettest.ProgressLine(elapsed, f)
	switch {
	case p.json:
	case p.terminal:
		const startOver = "\r\x1b[K"
		fmt.Fprint(p.stderr, startOver+line)
	default:
		fmt.Fprintln(p.stderr, line)
	}
}
