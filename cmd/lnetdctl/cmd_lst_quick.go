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
	// quickTimeout is the time in seconds without a command after which the session of "quick" ends.
	// The command itself sends one every second, so the session ends only if the command was killed.
	quickTimeout = 60
	// quickEnd is the timeout for stopping the test, and for ending the session.
	quickEnd = 40 * time.Second
	// quickIdle is how long "quick" waits at the end for requests of the test that are under way.
	// quickLook is the interval at which it checks whether there are any.
	quickIdle = 5 * time.Second
	quickLook = 50 * time.Millisecond
	// quickInterval is the interval at which "quick" prints a line of figures.
	quickInterval = time.Second
	// quickSize is the default size of the data of a request.
	quickSize = "1M"
)

// errInterrupted is the cause with which a context is canceled because of a signal.
type errInterrupted struct{ signal syscall.Signal }

func (e errInterrupted) Error() string { return e.signal.String() }

// quickOptions holds the options of the command "quick".
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

IDS is a comma list of NIDs or NID ranges. The PID of an MPI application and a hyphen may
precede it. Results are per client: MiB/s of data read or
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

// parseSeconds parses a duration from 1 s to 24 h. A number without a unit is in seconds.
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

// quick is one run of the command "quick".
type quick struct {
	*program
	options *quickOptions
	client  *client.Client
	key     api.LstKey
	batch   api.LstTest
	first   report.Sample // the counters before the test
	// seen holds the errors because of which the test was ended early.
	seen   []report.Trouble
	result quickResult
	// lost is true if the session has ended or lnetd cannot be reached, and this has been printed.
	lost bool
}

// quickResult is the last line of the output of "quick --json".
type quickResult struct {
	Seconds  float64          `json:"seconds"`
	Interval *report.Interval `json:"total,omitempty"`
	Troubles []report.Trouble `json:"troubles"`
	Failed   bool             `json:"failed"`
}

// lstQuick performs the command "quick": it creates a session, runs the test and ends the session. If it returns
// an error, it has printed it.
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
		return q.over(ctx, q.end(ctx)) // the session may have been created in spite of the error
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

// onSignal makes the first signal that would end the program call cancel instead. A second signal ends the
// program. Writing to a closed pipe returns an error instead of causing a signal. The returned function ends
// the handling of signals.
func onSignal(cancel context.CancelCauseFunc) (stop func()) {
	signal.Ignore(syscall.SIGPIPE) // stop does not revert this, because the program prints until it exits
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup makes programs ignore SIGHUP
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

// over returns the exit status of the command. If a signal has interrupted it, this is the status for the
// signal; otherwise it depends on err.
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

// test returns the test that the options describe, or an error if they are invalid.
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

// run creates the groups and the test, runs the test, and prints the result. If it returns an error, it has
// printed it.
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

// refused prints why a command of lst failed, and returns the exit status. It prints nothing if the run was
// interrupted, or if it has printed the loss of the session or of lnetd before.
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

// isLost reports whether err means that the session has ended or lnetd cannot be reached, so that all further
// commands would fail too.
func isLost(err error) bool {
	switch api.FaultOf(err).Code {
	case api.CodeDaemonUnreachable, api.CodeStopping, api.CodeLstDisabled, api.CodeLstNoSession, api.CodeLstKey:
		return true
	}
	return isErrno(err, syscall.ESHUTDOWN)
}

// complain prints the given error messages about nodes.
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

// nodesFailed prints an error for each node for which the operation op has failed. It returns false if it has
// not failed for any node.
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

// addGroup creates a group of the nodes in ids. It returns false, and has printed errors, if not all of them
// have joined the session.
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
	if wrong == nil && added.Deleted { // all of them are nodes of the other group that have left the session
		wrong = []string{fmt.Sprintf("No node of --%s joined the session", name)}
	}
	if wrong != nil {
		q.complain(wrong)
	}
	return wrong == nil, nil
}

// finish stops the test and prints its totals from the first sample to last. It prints them even if the session
// has ended or lnetd cannot be reached.
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

// stop stops the test, waits for requests under way, and reads the numbers of errors from all nodes. If it
// returns an error, it has printed it.
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
		found = q.seen // the nodes with errors during the test answer again without errors
	}
	q.result.Troubles = append(q.result.Troubles, found...)
	q.result.Failed = found != nil
	return nil
}

// idle waits until no request of the test is under way, for at most quickIdle. Without this wait, the session
// could end while a server still has requests. The server would never answer them, and a kernel's selftest may
// never recover from that. The wait is limited because a server that does not answer would delay the end by a
// whole RPC timeout.
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

// end ends the session, even if ctx is done. If it returns an error, it has printed it.
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
