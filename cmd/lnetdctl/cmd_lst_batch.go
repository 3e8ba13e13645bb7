package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
	"github.com/lnetd/lnetd/selftest/report"
)

// defaultBatch is the batch that exists in every session.
const defaultBatch = "batch"

// Numbers that list_batch prints for the states of a batch.
const (
	lstBatchIdle    = 176
	lstBatchRunning = 177
)

// lstNoTest is the message of Lustre's lst if a test, or something that a test needs, does not exist.
const lstNoTest = "Can't find test in current session"

// stopInterval is the interval at which the command "stop" checks whether a batch has stopped.
const stopInterval = time.Second

// namedBatch returns the name of the batch that the operand names or, without an operand, of the default batch.
func namedBatch(operands []string) string {
	if len(operands) == 0 {
		return defaultBatch
	}
	return operands[0]
}

func (p *program) lstAddBatchCommand() *cobra.Command {
	return p.lstLeaf(manual{
		use:   "add_batch NAME",
		short: "create a batch of tests",
		long: `A batch is a list of tests that are started and stopped together. Every session has a
batch named "batch".`,
		example: "lnetdctl lst add_batch b",
	}, 1, 1, func(ctx context.Context, c *client.Client, key api.LstKey, operands []string) error {
		if err := c.LstAddBatch(ctx, api.LstNamed{Key: key, Name: operands[0]}); err != nil {
			return p.lstRefused(lstWords{what: "batch", failed: "Failed to create batch"}, err)
		}
		if p.json {
			return p.printJSON(struct{}{})
		}
		return nil
	})
}

// addTestOptions holds the options of the command "add_test".
type addTestOptions struct {
	batch, distribute, from, to string
	loop, concurrency           int
}

func (p *program) lstAddTestCommand() *cobra.Command {
	var o addTestOptions
	c := p.lstLeaf(manual{
		use:   "add_test [OPTIONS] --from GROUP --to GROUP ping | brw [PARAMETERS...]",
		short: "add a test to a batch",
		long: `The nodes of the group --from (clients) send requests to the nodes of the group --to
(servers): "ping" without data, "brw" with bulk data. Parameters of brw, in any order:

read, write      direction of the data: read sends it to the client (default), write
                 to the server
size=N           bytes, with the suffix k or M; a multiple of 8, at most 1M; default 4K
check=MODE       full: check every word; simple: check the ends of each page; discard:
                 check nothing, and the receiver need not copy the data (also
                 skip_rx_copy); default: check nothing
off=N            offset of the data in the client's memory, a multiple of 8

Parameters that would crash a node that runs Lustre are refused.`,
		example: "lnetdctl lst add_test --batch b --concurrency 8 --from c --to s brw write check=full size=1M",
	}, 1, -1, func(ctx context.Context, c *client.Client, key api.LstKey, operands []string) error {
		return p.lstAddTest(ctx, c, key, &o, operands)
	})
	f := c.Flags()
	f.StringVarP(&o.batch, "batch", "b", defaultBatch, "add the test to the batch `NAME`")
	f.IntVarP(&o.loop, "loop", "l", -1, "run `N` rounds of --concurrency requests each; -1: no limit")
	f.IntVarP(&o.concurrency, "concurrency", "c", 1, "keep `N` requests in flight from each client to each server, 1 to 1024")
	f.StringVarP(&o.distribute, "distribute", "d", "1:1", "distribute servers as `N:M`: N clients use the same M servers")
	f.StringVarP(&o.from, "from", "f", "", "the `GROUP` of the clients")
	f.StringVarP(&o.to, "to", "t", "", "the `GROUP` of the servers")
	return c
}

func (p *program) lstAddTest(
	ctx context.Context, c *client.Client, key api.LstKey, o *addTestOptions, operands []string,
) error {
	invalid := func(text string) error {
		return p.lstFail(api.CodeLstInvalid, -int(syscall.EINVAL), text)
	}
	if o.from == "" || o.to == "" {
		err := p.lstFail(api.CodeLstUnknown, -int(syscall.ENOENT), lstNoTest)
		p.hint("name the client group with --from and the server group with --to")
		return err
	}
	if o.concurrency < 1 || o.concurrency > 1024 {
		return invalid(fmt.Sprintf("Invalid concurrency of test: %d", o.concurrency))
	}
	if o.loop == 0 || o.loop != int(int32(o.loop)) {
		return invalid("Invalid parameters list in command line")
	}
	distribute, span, ok := parseDistribute(o.distribute)
	if !ok {
		return invalid("Invalid distribute of test: " + o.distribute)
	}
	r := api.LstTest{
		Key: key, Batch: o.batch, From: o.from, To: o.to, Kind: strings.ToLower(operands[0]),
		Loop: int32(max(o.loop, -1)), Concurrency: o.concurrency, Distribute: distribute, Span: span,
	}
	failed := "\nFailed to add test (" + operands[0] + ")"
	switch r.Kind {
	case api.LstKindPing:
		if len(operands) > 1 {
			return invalid("Unknow parameter: " + operands[1] + failed)
		}
	case api.LstKindBRW:
		var err error
		if r.BRW, err = brwParameters(operands[1:]); err != nil {
			return invalid(err.Error() + failed)
		}
	default:
		return invalid("Unknow test name " + operands[0] + failed)
	}
	return p.lstSendTest(ctx, c, &r)
}

// parseDistribute parses the value "N:M" of --distribute, with N as distribute and M as span.
func parseDistribute(s string) (distribute, span int, ok bool) {
	a, b, found := strings.Cut(s, ":")
	distribute, err := strconv.Atoi(a)
	if err != nil || !found || distribute < 1 {
		return 0, 0, false
	}
	span, err = strconv.Atoi(b)
	return distribute, span, err == nil && span >= 1
}

func (p *program) lstSendTest(ctx context.Context, c *client.Client, r *api.LstTest) error {
	added, err := c.LstAddTest(ctx, *r)
	if err != nil {
		return p.lstRefused(lstWords{what: "test", failed: "Failed to add test"}, err)
	}
	ok := added.Servers.OK() && added.Clients.OK()
	if p.json {
		if err := p.printJSON(added); err != nil {
			return err
		}
	} else {
		p.lstNodesFailed("add test", &added.Servers)
		p.lstNodesFailed("add test", &added.Clients)
		if ok {
			fmt.Fprintln(p.stdout, "Test was added successfully")
		}
	}
	if !ok {
		return status(exitFailure)
	}
	return nil
}

func (p *program) lstRunCommand() *cobra.Command {
	var timeout int
	c := p.lstLeaf(manual{
		use:     "run [--timeout SECONDS] [NAME]",
		short:   "start a batch",
		long:    `Starts the tests of the batch on all clients. The default NAME is batch.`,
		example: "lnetdctl lst run --timeout 60 b",
	}, 0, 1, func(ctx context.Context, c *client.Client, key api.LstKey, operands []string) error {
		r := api.LstRun{Key: key, Batch: namedBatch(operands), Timeout: timeout}
		res, err := c.LstRun(ctx, r)
		if err != nil {
			return p.lstBatchRefused(r.Batch, "run", err)
		}
		if p.json {
			if err := p.printJSON(res); err != nil {
				return err
			}
		} else if p.lstNodesFailed("run batch", &res); res.OK() {
			fmt.Fprintf(p.stdout, "%s is running now\n", r.Batch)
		}
		if !res.OK() {
			return status(exitFailure)
		}
		return nil
	})
	c.Flags().IntVarP(&timeout, "timeout", "t", 0, "stop after `SECONDS`; 0: run until \"lst stop\", or until all loops are done")
	return c
}

// lstBatchRefused is like lstRefused for an operation on a batch.
func (p *program) lstBatchRefused(batch, op string, err error) error {
	if isErrno(err, syscall.ENOENT) && !p.json {
		return p.noCount("Failed to get", batch)
	}
	return p.lstRefused(lstWords{what: "batch", failed: "Failed to " + op + " batch"}, err)
}

func (p *program) lstStopCommand() *cobra.Command {
	var force bool
	c := p.lstLeaf(manual{
		use:     "stop [--force] [NAME]",
		short:   "stop a batch, and wait until it has stopped",
		long:    `Waits for requests in flight, unless --force is given. The default NAME is batch.`,
		example: "lnetdctl lst stop b",
	}, 0, 1, func(ctx context.Context, c *client.Client, key api.LstKey, operands []string) error {
		return p.lstStop(ctx, c, api.LstStop{Key: key, Batch: namedBatch(operands), Force: force})
	})
	c.Flags().BoolVarP(&force, "force", "f", false, "abort requests in flight")
	return c
}

func (p *program) lstStop(ctx context.Context, c *client.Client, r api.LstStop) error {
	res, err := c.LstStop(ctx, r)
	if err != nil {
		return p.lstBatchRefused(r.Batch, "stop", err)
	}
	if p.json {
		if err := p.printJSON(res); err != nil {
			return err
		}
	} else {
		p.lstNodesFailed("stop batch", &res)
	}
	if !res.OK() {
		return status(exitFailure)
	}
	for {
		q, err := c.LstQuery(ctx, api.LstQuery{Key: r.Key, Batch: r.Batch})
		if err != nil {
			return p.lstBatchRefused(r.Batch, "query", err)
		}
		if q.Running == 0 {
			break
		}
		if !p.json {
			fmt.Fprintf(p.stdout, "%d batch in stopping\n", q.Running)
		}
		if err := p.wait(ctx, stopInterval); err != nil {
			return err
		}
	}
	if !p.json {
		fmt.Fprintln(p.stdout, "Batch is stopped")
	}
	return nil
}

func (p *program) lstListBatchCommand() *cobra.Command {
	var o lstStateOptions
	var test int
	var servers bool
	c := p.lstLeaf(manual{
		use:   "list_batch [--test N] [--active | --invalid | --all] [--server] [NAME]",
		short: "list the batches, or the tests or nodes of one batch",
		long: `Without NAME it lists the batches, with NAME the tests of that batch. With --active,
--invalid or --all it lists the nodes of the batch in that state. The state number of a
batch is 176 if it is stopped, 177 if it is running.`,
		example: `lnetdctl lst list_batch
lnetdctl lst list_batch --all b`,
	}, 0, 1, func(ctx context.Context, c *client.Client, key api.LstKey, operands []string) error {
		if len(operands) == 0 {
			names, err := c.LstBatches(ctx, key)
			if err != nil {
				return p.lstRefused(lstWords{what: "batch", failed: "Failed to list batches"}, err)
			}
			return p.lstShowNames(names, "batches")
		}
		b, err := c.LstBatch(ctx, api.LstNamed{Key: key, Name: operands[0]})
		if err != nil {
			return p.lstRefused(lstWords{what: "batch", failed: "Failed to list batch"}, err)
		}
		return p.lstShowBatch(&b, test, servers, &o)
	})
	f := c.Flags()
	f.IntVarP(&test, "test", "t", 0, "only test number `N`")
	f.BoolVar(&o.active, "active", false, "list active nodes")
	f.BoolVar(&o.invalid, "invalid", false, "list nodes that are not active")
	f.BoolVar(&o.all, "all", false, "list all nodes")
	f.BoolVar(&servers, "server", false, "list servers instead of clients")
	return c
}

func (p *program) lstShowBatch(b *report.BatchInfo, test int, servers bool, o *lstStateOptions) error {
	if test < 0 || test > len(b.Tests) {
		return p.lstFail(api.CodeLstUnknown, -int(syscall.ENOENT), lstNoTest)
	}
	if p.json {
		if test > 0 {
			return p.printJSON(b.Tests[test-1])
		}
		return p.printJSON(b)
	}
	if o.shows() {
		clients, serving := b.Clients, b.Servers
		if test > 0 {
			clients, serving = b.Tests[test-1].Clients, b.Tests[test-1].Servers
		}
		if servers {
			clients = serving
		}
		fmt.Fprintf(p.stdout, "Total %d nodes\n", o.nodes(p, clients.Nodes))
		return nil
	}
	counts := func(clients, servers *report.Members) {
		fmt.Fprintln(p.stdout, lstCountHeader)
		fmt.Fprintf(p.stdout, "client%s\nserver%s\n", lstCount(clients.Count), lstCount(servers.Count))
	}
	if test == 0 {
		state := lstBatchIdle
		if b.Running {
			state = lstBatchRunning
		}
		fmt.Fprintf(p.stdout, "Batch: %s Tests: %d State: %d\n", b.Name, len(b.Tests), state)
		counts(&b.Clients, &b.Servers)
	}
	for k := range b.Tests {
		t := &b.Tests[k]
		if test == 0 || t.Index == test {
			fmt.Fprintf(p.stdout, "\tTest %d(%s) (loop: %d, concurrency: %d)\n", t.Index, t.Kind, t.Loop, t.Concurrency)
			counts(&t.Clients, &t.Servers)
		}
	}
	return nil
}

// queryOptions holds the options of the command "query".
type queryOptions struct {
	test, timeout, delay, loop int
	active, idle, failed, all  bool
}

func (p *program) lstQueryCommand() *cobra.Command {
	var o queryOptions
	var servers bool
	c := p.lstLeaf(manual{
		use:     "query [--test N] [--delay SECONDS] [--loop COUNT] [--active|--idle|--error|--all] [NAME]",
		short:   "query whether a batch is running",
		example: "lnetdctl lst query --all b",
		long: `Queries the clients, even with --server: servers run no tests themselves. Lustre's lst
does the same.`,
	}, 0, 1, func(ctx context.Context, c *client.Client, key api.LstKey, operands []string) error {
		return p.lstQuery(ctx, c, key, namedBatch(operands), &o)
	})
	f := c.Flags()
	f.IntVarP(&o.test, "test", "t", 0, "only test number `N`")
	f.BoolVarP(&servers, "server", "s", false, "has no effect")
	f.IntVar(&o.timeout, "timeout", 5, "wait `SECONDS` for answers, at least 3")
	f.IntVar(&o.delay, "delay", 5, "repeat the query every `SECONDS`")
	f.IntVar(&o.loop, "loop", 1, "make `COUNT` queries; -1: until interrupted")
	f.BoolVar(&o.active, "active", false, "list nodes that are running")
	f.BoolVar(&o.idle, "idle", false, "list nodes that are idle")
	f.BoolVar(&o.failed, "error", false, "list nodes that returned an error")
	f.BoolVar(&o.all, "all", false, "list all nodes")
	return c
}

func (p *program) lstQuery(
	ctx context.Context, c *client.Client, key api.LstKey, batch string, o *queryOptions,
) error {
	if o.delay < 1 || o.delay > api.LstTimeoutMax || o.timeout < 1 || o.test < 0 {
		return p.lstFail(api.CodeLstInvalid, -int(syscall.EINVAL), "Invalid parameters list in command line")
	}
	r := api.LstQuery{Key: key, Batch: batch, Test: o.test, Timeout: o.timeout}
	for k := 0; k != max(o.loop, -1); k++ {
		if k > 0 {
			if err := p.wait(ctx, time.Duration(o.delay)*time.Second); err != nil {
				return err
			}
		}
		q, err := c.LstQuery(ctx, r)
		if err != nil {
			return p.lstBatchRefused(batch, "query", err)
		}
		if p.json {
			if err := p.printJSONLine(q); err != nil {
				return err
			}
			continue
		}
		o.show(p, batch, &q)
	}
	return nil
}

// show prints the result of a query.
func (o *queryOptions) show(p *program, batch string, q *report.QueryResult) {
	if !o.active && !o.idle && !o.failed && !o.all {
		head := fmt.Sprintf("%s [%d]", batch, o.test)
		switch {
		case q.Idle+q.Running+q.Failed == 0:
			fmt.Fprintln(p.stdout, "Batch or test is empty")
		case q.Running == 0 && q.Failed == 0:
			fmt.Fprintf(p.stdout, "%s is stopped\n", head)
		case q.Idle == 0 && q.Failed == 0:
			fmt.Fprintf(p.stdout, "%s is running\n", head)
		default:
			fmt.Fprintf(p.stdout, "%s stopped: %d , running: %d, failed: %d\n", head, q.Idle, q.Running, q.Failed)
		}
		return
	}
	for k := range q.Nodes {
		n := &q.Nodes[k]
		var text string
		var shown bool
		switch {
		case n.RPC != 0:
			text, shown = api.Strerror(n.RPC), o.failed
		case n.Status != 0:
			text, shown = api.Strerror(n.Status), o.failed
		case n.Active > 0:
			text, shown = "Running", o.active
		default:
			text, shown = "Idle", o.idle
		}
		if shown || o.all {
			fmt.Fprintf(p.stdout, "%s [%s]: %s\n", n.ID, n.State, text)
		}
	}
}
