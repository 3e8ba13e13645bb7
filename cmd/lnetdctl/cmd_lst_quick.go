package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
	"github.com/lnetd/lnetd/selftest/report"
)

const (
	// quickTimeout is how long a session of quick lives after lnetd has lost its console. quick
	// itself sends a command every second.
	quickTimeout = 60
	// quickEnd is the timeout for the cleanup.
	quickEnd = 40 * time.Second
	// quickIdle is the timeout for requests that are under way when the test ends. quickLook is the
	// polling interval.
	quickIdle = 5 * time.Second
	quickLook = 50 * time.Millisecond
	// quickInterval is the interval at which quick prints figures.
	quickInterval = time.Second
	// quickSize is the default size of the data of a request.
	quickSize = "1M"
)

// errInterrupted is the cancellation cause of a signal.
type errInterrupted struct{ signal syscall.Signal }

func (e errInterrupted) Error() string { return e.signal.String() }

// quickOptions are the options of quick.
type quickOptions struct {
	from, to                []string
	size, check, distribute string
	offset                  string
	write, ping             bool
	duration                time.Duration
	concurrency             int
}

func (p *program) lstQuickCommand() *cobra.Command {
	var o quickOptions
	var seconds string
	c := command(manual{
		use:   "quick --from IDS --to IDS [OPTIONS]",
		short: "run one test between two sets of nodes (not in Lustre's lst)",
		long: `Creates a session, runs a test in it, prints the results every second, and ends the
session. If the program is interrupted or killed, lnetd ends the session on all nodes.

IDS is a comma list of NIDs or NID ranges. Results are per client: MiB/s of data read or
written, requests per second, and the latencies of requests. Latencies are only available
for the lnetd of this node.`,
		example: `lnetdctl lst quick --from 10.0.0.1@tcp --to 10.0.0.2@tcp --size 1M
lnetdctl lst quick --from 10.0.0.[1-4]@tcp --to 10.0.0.9@tcp --size 4K --write --check full --time 60s`,
		exits: `0      no node reported an error
1      help was requested
128+N  ended by signal N: 130 by Ctrl-C
255    a node could not take part or reported errors, the command line is wrong, or
       lnetd does not answer (-1)`,
	}, func(ctx context.Context, operands []string) error {
		if err := lstOperands(operands, 0, 0); err != nil {
			return err
		}
		var err error
		if o.duration, err = parseSeconds(seconds); err != nil {
			return p.lstFail(api.CodeLstInvalid, -int(syscall.EINVAL), "--time "+err.Error())
		}
		return p.lstQuick(ctx, &o)
	})
	f := c.Flags()
	f.StringArrayVar(&o.from, "from", nil, "`IDS` of the clients")
	f.StringArrayVar(&o.to, "to", nil, "`IDS` of the servers")
	f.StringVar(&o.size, "size", quickSize, "`SIZE` of the data of each request, with the suffix k or M")
	f.StringVar(&o.offset, "offset", "0", "offset of the data in a page at the clients, in `BYTES`")
	f.BoolVar(&o.write, "write", false, "clients write data to the servers (default: read)")
	f.StringVar(&o.check, "check", "none", "`MODE` of data checks: none, simple, full, discard")
	f.BoolVar(&o.ping, "ping", false, "send requests without data")
	f.IntVar(&o.concurrency, "concurrency", 8, "keep `N` requests in flight from each client to each server")
	f.StringVar(&o.distribute, "distribute", "1:1", "distribute servers as `N:M`: N clients use the same M servers")
	f.StringVar(&seconds, "time", "10s", "run for `TIME`, such as 10s or 5m")
	return c
}

// parseSeconds parses a duration. A number without a unit is in seconds.
func parseSeconds(s string) (time.Duration, error) {
	if n, ok := parseNumber(s); ok {
		s = fmt.Sprintf("%ds", n)
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < time.Second || d > 24*time.Hour {
		return 0, fmt.Errorf("%s is not a time from 1s to 24h", s)
	}
	return d, nil
}

// quick is one run of the command.
type quick struct {
	*program
	options *quickOptions
	client  *client.Client
	key     api.LstKey
	batch   api.LstTest
	first   report.Sample
	// seen are the errors that ended the test early.
	seen   []report.Trouble
	result quickResult
	// lost reports whether the session or lnetd is gone, which has then been printed.
	lost bool
}

// quickResult is the final output of quick with --json.
type quickResult struct {
	Seconds  float64          `json:"seconds"`
	Interval *report.Interval `json:"total,omitempty"`
	Troubles []report.Trouble `json:"troubles"`
	Failed   bool             `json:"failed"`
}

// lstQuick runs the command, from creating the session to its end.
func (p *program) lstQuick(ctx context.Context, o *quickOptions) error {
	q := &quick{program: p, options: o, client: p.client(), key: api.LstKey(rand.Int64N(1<<31-1) + 1)}
	defer q.client.Close()
	test, err := o.test()
	if err != nil {
		return p.lstFail(api.CodeLstInvalid, -int(syscall.EINVAL), err.Error())
	}
	q.batch = test
	q.batch.Key = q.key
	q.result.Troubles = []report.Trouble{}

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := onSignal(cancel)
	defer stop()
	_, err = q.client.LstNewSession(ctx, api.LstNewSession{Key: q.key, Name: defaultSessionName(), Timeout: quickTimeout})
	switch {
	case err != nil && ctx.Err() != nil:
		return q.over(ctx, q.end(ctx)) // the session may exist
	case err != nil:
		if isErrno(err, syscall.EEXIST) {
			p.hint("lst show_session describes it; lst end_session ends it")
		}
		return q.over(ctx, p.lstRefused(lstWords{what: "session", failed: "Failed to create session"}, err))
	}
	release, err := q.client.LstHoldSession(context.WithoutCancel(ctx), q.key)
	if err == nil {
		defer release()
		err = q.run(ctx)
	} else {
		err = q.refused(ctx, "Failed to hold the session", err)
	}
	return q.over(ctx, errors.Join(err, q.end(ctx)))
}

// onSignal calls cancel on a signal that would end the program. The next signal ends it. A closed
// output is an error instead of a signal.
func onSignal(cancel context.CancelCauseFunc) (stop func()) {
	signal.Ignore(syscall.SIGPIPE) // until the program exits, because it prints until the end
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		signal.Notify(signals, syscall.SIGHUP)
	}
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case s := <-signals:
			signal.Stop(signals)
			if n, ok := s.(syscall.Signal); ok {
				cancel(errInterrupted{n})
			}
		case <-done:
		}
	}()
	return func() {
		signal.Stop(signals)
		close(done)
		<-ended
	}
}

// over returns the exit status: the signal's, if there was one.
func (q *quick) over(ctx context.Context, err error) error {
	var by errInterrupted
	if errors.As(context.Cause(ctx), &by) {
		return status(128 + int(by.signal))
	}
	if err != nil {
		return status(exitFailure)
	}
	return nil
}

// test returns the test that the options describe.
func (o *quickOptions) test() (api.LstTest, error) {
	t := api.LstTest{
		Batch: defaultBatch, From: "from", To: "to", Kind: api.LstKindPing, Loop: -1, Concurrency: o.concurrency,
	}
	if len(o.from) == 0 || len(o.to) == 0 {
		return t, errors.New("--from and --to are needed")
	}
	var ok bool
	if t.Distribute, t.Span, ok = parseDistribute(o.distribute); !ok {
		return t, fmt.Errorf("--distribute %s is not N:M", o.distribute)
	}
	if o.concurrency < 1 || o.concurrency > 1024 {
		return t, fmt.Errorf("--concurrency %d is not within 1 to 1024", o.concurrency)
	}
	check := strings.ToLower(o.check)
	if o.ping {
		if o.write || o.size != quickSize || o.offset != "0" || check != "none" {
			return t, errors.New("--ping sends no data: it cannot be combined with --size, --offset, --write or --check")
		}
		return t, nil
	}
	t.Kind = api.LstKindBRW
	words := []string{"read", "size=" + o.size, "off=" + o.offset}
	if o.write {
		words[0] = "write"
	}
	if check != "none" {
		words = append(words, "check="+check)
	}
	var err error
	t.BRW, err = brwParameters(words)
	return t, err
}

// run sets up the test, runs it, and prints the result. It has reported errors when it returns.
func (q *quick) run(ctx context.Context) error {
	failed := status(exitFailure)
	for _, g := range []struct {
		name string
		ids  []string
	}{{"from", q.options.from}, {"to", q.options.to}} {
		ok, err := q.addGroup(ctx, g.name, g.ids)
		switch {
		case err != nil:
			return q.refused(ctx, "Failed to add nodes", err)
		case !ok:
			return failed
		}
	}
	added, err := q.client.LstAddTest(ctx, q.batch)
	if err != nil {
		return q.refused(ctx, "Failed to add test", err)
	}
	if q.nodesFailed("add test", &added.Servers, &added.Clients) {
		return failed
	}
	if q.first, err = q.sample(ctx); err != nil {
		return q.refused(ctx, "Failed to stat", err)
	}
	started, err := q.client.LstRun(ctx, api.LstRun{Key: q.key, Batch: q.batch.Batch})
	if err != nil {
		return q.refused(ctx, "Failed to run batch", err)
	}
	if q.nodesFailed("run batch", &started) {
		return failed
	}
	return q.watch(ctx)
}

// refused reports why a command failed, unless the run was interrupted.
func (q *quick) refused(ctx context.Context, failed string, err error) error {
	if ctx.Err() != nil {
		return status(exitFailure)
	}
	if q.lost && isLost(err) {
		return status(exitFailure)
	}
	q.lost = q.lost || isLost(err)
	return q.lstRefused(lstWords{failed: failed}, err)
}

// isLost reports whether all further commands would fail with the same error.
func isLost(err error) bool {
	switch api.FaultOf(err).Code {
	case api.CodeDaemonUnreachable, api.CodeStopping, api.CodeLstDisabled, api.CodeLstNoSession, api.CodeLstKey:
		return true
	}
	return isErrno(err, syscall.ESHUTDOWN)
}

// complain prints the errors of nodes, one per line.
func (q *quick) complain(lines []string) {
	if q.json {
		q.failJSON(&api.Fault{
			Code: api.CodeLstNotActive, Errno: -int(syscall.ENETDOWN), Text: "not all nodes joined the session",
			Cause: strings.Join(lines, "\n"),
		})
		return
	}
	for _, line := range lines {
		fmt.Fprintln(q.stderr, line)
	}
}

// nodesFailed reports nodes that have failed. It returns whether there were any.
func (q *quick) nodesFailed(op string, results ...*report.Result) bool {
	var lines []string
	for _, r := range results {
		lines = append(lines, lstFailures(op, r)...)
	}
	if lines == nil {
		return false
	}
	q.complain(lines)
	return true
}

// addGroup creates a group in which every node must take part.
func (q *quick) addGroup(ctx context.Context, name string, ids []string) (bool, error) {
	added, err := q.client.LstAddGroup(ctx, api.LstAddGroup{Key: q.key, Name: name, IDs: ids})
	if err != nil {
		return false, err
	}
	var wrong []string
	for k := range added.Lists {
		a := &added.Lists[k]
		if a.Error != nil {
			wrong = append(wrong, fmt.Sprintf("Invalid --%s %s: %s", name, a.IDs, a.Error.Reason))
		}
		for i := range a.Result.Nodes {
			n := &a.Result.Nodes[i]
			why := ""
			switch {
			case n.RPC != 0:
				why = api.Strerror(n.RPC) + "; check that the node is up and that LNet selftest is enabled there"
			case n.State == report.Busy && n.Session != nil:
				why = fmt.Sprintf("it is in the session %s of %s", n.Session.Name, n.Session.NID)
			case n.Status != 0:
				why = api.Strerror(n.Status)
			default:
				continue
			}
			wrong = append(wrong, fmt.Sprintf("%s did not join the session: %s", n.ID, why))
		}
	}
	if wrong == nil && added.Deleted { // nodes of the other group, which have left
		wrong = []string{fmt.Sprintf("No node of --%s joined the session", name)}
	}
	if wrong != nil {
		q.complain(wrong)
	}
	return wrong == nil, nil
}

// finish stops the test and prints its totals up to the last sample, even if the session is lost.
func (q *quick) finish(ctx context.Context, last report.Sample) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), quickEnd)
	defer cancel()
	err := q.stop(ctx)
	q.result.Failed = q.result.Failed || err != nil
	if i, err := last.Since(q.first); err == nil {
		q.result.Interval = &i[0]
	}
	if q.json {
		if err := q.printJSONLine(&q.result); err != nil {
			return err
		}
	} else {
		if q.result.Interval != nil {
			fmt.Fprintf(q.stdout, "total  %s\n", q.figures(q.result.Interval))
		}
		for k := range q.result.Troubles {
			q.lstShowTrouble(&q.result.Troubles[k], true)
		}
	}
	if q.result.Failed {
		return status(exitFailure)
	}
	return nil
}

// stop stops the test and reads the error counts of all nodes.
func (q *quick) stop(ctx context.Context) error {
	if q.lost {
		return status(exitFailure)
	}
	if _, err := q.client.LstStop(ctx, api.LstStop{Key: q.key, Batch: q.batch.Batch}); err != nil {
		return q.refused(ctx, "Failed to stop batch", err)
	}
	if err := q.idle(ctx); err != nil {
		return q.refused(ctx, "Failed to query batch", err)
	}
	after, err := q.sample(ctx)
	if err != nil {
		return q.refused(ctx, "Failed to stat", err)
	}
	found := troubles(&after)
	if found == nil {
		found = q.seen // the node was unreachable then, but answers now
	}
	q.result.Troubles = append(q.result.Troubles, found...)
	q.result.Failed = found != nil
	return nil
}

// idle waits until no request of the test is under way. A request to a server whose session has
// ended is never answered, and a kernel's selftest may never recover from that. The wait is short,
// because a dead server would take a whole RPC timeout.
func (q *quick) idle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, quickIdle)
	defer cancel()
	for {
		r, err := q.client.LstQuery(ctx, api.LstQuery{Key: q.key, Batch: q.batch.Batch})
		if ctx.Err() != nil || err == nil && r.Running == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		if q.wait(ctx, quickLook) != nil {
			return nil
		}
	}
}

// end ends the session, even if ctx is done.
func (q *quick) end(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), quickEnd)
	defer cancel()
	err := q.client.LstEndSession(ctx, q.key)
	switch {
	case err == nil, isErrno(err, syscall.ESRCH), isErrno(err, syscall.EACCES): // the session is gone, or belongs to another console
		return nil
	case q.lost && isLost(err):
		return status(exitFailure)
	}
	return q.lstRefused(lstWords{failed: "Failed to end session"}, err)
}
