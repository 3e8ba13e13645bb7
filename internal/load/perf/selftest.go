package perf

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selftest"
	"github.com/lnetd/lnetd/selftest/console"
)

// poll is the interval at which run checks whether a batch has ended. On average, a run appears longer
// by half of it, which is a few thousandths of the run.
const poll = 500 * time.Microsecond

// tester is a node that runs LNet selftest as console and client.
type tester struct {
	ours    *lnetNode
	agent   *selftest.Agent
	console *console.Console
}

// sessionKey is the key of the console's sessions, of which at most one exists at any time.
const sessionKey = 1

func (o *lnetNode) newTester() (*tester, error) {
	a, err := selftest.Enable(o.node, selftest.Config{})
	if err != nil {
		return nil, err
	}
	return &tester{ours: o, agent: a, console: console.New(o.node, a, console.Config{})}, nil
}

func (t *tester) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), setupTime)
	defer cancel()
	return errors.Join(t.console.Close(ctx), t.agent.Close(ctx))
}

// selftestSession is a session with a server. It has a batch for each exchange that was run.
type selftestSession struct {
	tester  *tester
	batches map[exchange]string
	fastest map[exchange]time.Duration
}

// open begins a session with a server. The caller must close it.
func (t *tester) open(ctx context.Context, server lnet.NID) (*selftestSession, error) {
	if err := t.begin(ctx, server); err != nil {
		return nil, err
	}
	return &selftestSession{tester: t, batches: map[exchange]string{}, fastest: map[exchange]time.Duration{}}, nil
}

// run makes the RPCs of an exchange and returns the time taken. It adds a batch for the exchange on
// first use.
func (s *selftestSession) run(ctx context.Context, x exchange) (time.Duration, error) {
	name, ok := s.batches[x]
	if !ok {
		name = fmt.Sprint("batch", len(s.batches))
		s.batches[x] = name
		if err := s.tester.add(ctx, name, x); err != nil {
			return 0, err
		}
	}
	took, err := s.tester.run(ctx, name, s.fastest[x])
	if !ok || took < s.fastest[x] {
		s.fastest[x] = took
	}
	return took, err
}

// close ends the session.
func (s *selftestSession) close(ctx context.Context) error {
	return s.tester.console.EndSession(ctx, sessionKey)
}

// begin begins a session in which this node is the client of a server.
func (t *tester) begin(ctx context.Context, server lnet.NID) error {
	if _, err := t.console.NewSession(ctx, console.SessionOptions{Key: sessionKey, Name: "perf"}); err != nil {
		return err
	}
	for name, nid := range map[string]lnet.NID{"clients": t.ours.nid, "servers": server} {
		g, err := t.console.AddGroup(ctx, sessionKey, name, []string{nid.String()})
		if err != nil {
			return err
		}
		if g.Deleted {
			return fmt.Errorf("selftest: node %s did not join the session: %+v", nid, g.Lists[0])
		}
	}
	return nil
}

// add adds a batch that makes x.n RPCs in total.
func (t *tester) add(ctx context.Context, batch string, x exchange) error {
	if err := t.console.AddBatch(sessionKey, batch); err != nil {
		return err
	}
	q := console.Test{
		Batch: batch, From: "clients", To: "servers", Kind: console.PingTest,
		Loop: int32(x.n / x.window), Concurrency: x.window, Distribute: 1, Span: 1,
	}
	if !x.ping() {
		q.Kind, q.BRW = console.BulkTest, console.BRW{Write: x.in > 0, Size: max(x.in, x.out)}
	}
	a, err := t.console.AddTest(ctx, sessionKey, q)
	if err == nil && !a.OK() {
		err = fmt.Errorf("selftest: the nodes refused the test: %+v", a)
	}
	return err
}

// ping reports whether the selftest of an exchange is a ping test, because the exchange has no payload.
func (x *exchange) ping() bool { return max(x.in, x.out) == 0 }

// run runs a batch and returns the time taken. It starts to check for the end after most of the expected
// time, because the checks would disturb the run.
func (t *tester) run(ctx context.Context, batch string, expected time.Duration) (time.Duration, error) {
	quiet := time.NewTimer(expected * 15 / 16)
	defer quiet.Stop()
	start := time.Now()
	r, err := t.console.Run(ctx, sessionKey, batch, 0)
	if err != nil {
		return 0, err
	}
	if !r.OK() {
		return 0, fmt.Errorf("selftest: the nodes did not start the batch: %+v", r)
	}
	select {
	case <-quiet.C:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		s, ok := t.agent.Session()
		switch {
		case !ok:
			return 0, errors.New("selftest: the session ended during the batch")
		case s.BRWErrors+s.PingErrors > 0:
			return 0, fmt.Errorf("selftest: the batch had %d brw errors and %d ping errors", s.BRWErrors, s.PingErrors)
		case !active(&s):
			return time.Since(start), nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

func active(s *selftest.SessionInfo) bool {
	for _, b := range s.Batches {
		for _, t := range b.Tests {
			if t.Active > 0 {
				return true
			}
		}
	}
	return false
}
