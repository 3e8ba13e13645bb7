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

// consoleOptions are the options of console.
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
		Short: "have nodes send each other messages or bulk, and count",
		Long: `Tells nodes what to do, shows once a second how it goes, and prints at the end what
clients and servers have counted. Each client has to do with each server.

With "ping" clients send messages that servers send back. With "bulk" a client
announces pairs of buffers, of which a server fetches one and fills the other, several
pairs in one message; -B, -b, -f and -g are needed for it. A message or transfer that
takes too long has failed and begins again, up to 5 times.

-C and -c name the nodes, by the end points for commands that they were started with,
-D and -d the end points that they are to send from, one for each node, all lists with
commas between. With --local nodes are in this process: with NIDs for both sides on two
nodes of the LNet, else on one or in memory, or, with --through, as two programs to one
lnetd. Interrupted, the test ends in good order.`,
		Example: `lnetperf console -t ping -n 100000 -s 4K --local 1x1
lnetperf console -t bulk -n 64 -s 1M -B 32 -b 16 -f 16K -g 8 --verify --local 2x2 --client-nid 127.0.0.2@tcp --server-nid 127.0.0.3@tcp
lnetperf console -t ping -T 5 -s 4K -C 10.0.0.1@tcp:12345:42:326 -D 10.0.0.1@tcp:12345:42:334 -c 10.0.0.2@tcp:12345:42:300 -d 10.0.0.2@tcp:12345:42:318`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return p.console(c.Context(), &o) },
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVarP(&o.kind, "type", "t", "", "`ping|bulk`")
	f.Uint64VarP(&o.Test.Count, "number", "n", 0, "`N` messages or transfers of each client for each server; with -T it may be left out")
	f.VarP(&o.time, "time", "T", "`TIME` after which clients begin nothing any more (default none)")
	f.VarP(&o.size, "size", "s", "`SIZE` of a message, 32 and up, or of a transfer, both up to 1M")
	f.StringVarP(&o.Servers.Console, "server-console", "A", "", "end point to talk to servers from: an `ADDRESS` of this host (default 299 of its NID)")
	f.StringVarP(&o.Clients.Console, "client-console", "a", "", "end point to talk to clients from: an `ADDRESS` of this host (default 298 of its NID)")
	f.StringSliceVarP(&o.Servers.Commands, "server-commands", "C", nil, "`ADDRESSES` for commands, of servers")
	f.StringSliceVarP(&o.Clients.Commands, "client-commands", "c", nil, "`ADDRESSES` for commands, of clients")
	f.StringSliceVarP(&o.Servers.Data, "server-data", "D", nil, "`ADDRESSES` for data, of servers")
	f.StringSliceVarP(&o.Clients.Data, "client-data", "d", nil, "`ADDRESSES` for data, of clients")
	f.IntVarP(&o.Servers.Concurrency, "server-concurrency", "E", 16, "`N` messages or transfers at once that a server has room for, of each client (default 16)")
	f.IntVarP(&o.Clients.Concurrency, "client-concurrency", "e", 8, "`N` of them that a client has under way with each server (default 8)")
	f.IntVarP(&o.Servers.Buffers, "server-buffers", "B", 0, "`N` messages with descriptors that a server has room for")
	f.IntVarP(&o.Clients.Buffers, "client-buffers", "b", 0, "`N` of them that a client has under way")
	f.VarP(&o.bufferSize, "buffer-size", "f", "`SIZE` of a message with descriptors at most")
	f.IntVarP(&o.Test.Descriptors, "descriptors", "g", 0, "`N` descriptors in a message at most, 2 for each transfer")
	f.BoolVar(&o.Test.Verify, "verify", false, "compare the bulk that comes back with what was sent")
	f.IntVar(&o.Test.Messages, "messages", 1, "`N` messages that a receive buffer has room for (default 1)")
	f.StringVar(&o.delivery, "delivery", o.delivery, "how events come to nodes: `async|sync|poll` (default sync)")
	f.Var(&o.timeout, "timeout", "`TIME` after which a message or transfer has failed (default 3 s, of bulk 10 s)")
	f.Var(&o.commandTime, "command-timeout", "`TIME` that nodes have for an answer (default 10 s)")
	f.BoolVarP(&o.parsable, "parsable", "p", false, "print lines for programs, too")
	f.StringVar(&o.local, "local", "", "`CxS`: have so many clients and servers in this process, in place of -C, -D, -c and -d")
	f.StringVar(&o.clientNID, "client-nid", tmhost.Loopback, "with --local, `NID` of the clients' node (default 0@lo)")
	f.StringVar(&o.serverNID, "server-nid", "", "with --local, `NID` of the servers' node (default the clients')")
	f.BoolVarP(&o.list, "list", "l", false, "print the limits of buffers, and the NIDs, and end")
	o.add(f)
	return c
}

// read parses the options into their ConsoleConfig.
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
		return usage("--transport mem reaches nobody outside of this process: see --local")
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

// place determines the NID of the console.
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

// consoleAndNodes runs a test with nodes in this process.
func (p *program) consoleAndNodes(ctx context.Context, o *consoleOptions) (err error) {
	var clients, servers int
	if n, _ := fmt.Sscanf(o.local, "%dx%d", &clients, &servers); n != 2 || fmt.Sprintf("%dx%d", clients, servers) != o.local ||
		clients < 1 || servers < 1 || clients > nettest.LocalMax || servers > nettest.LocalMax {
		return usage("--local %q is not as 2x3, up to %[2]dx%[2]d", o.local, nettest.LocalMax)
	}
	if len(o.Servers.Commands)+len(o.Clients.Commands)+len(o.Servers.Data)+len(o.Clients.Data) > 0 {
		return usage("--local has its own nodes: no -C, -D, -c, -d")
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
