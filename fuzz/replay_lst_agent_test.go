package fuzz

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lnetd/lnetd/internal/testing/recording"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selftest"
	"github.com/lnetd/lnetd/selftest/console"
	"github.com/lnetd/lnetd/selftest/message"
)

// selftester runs selftest on our node: an agent, and a console for roles that had one.
type selftester struct {
	p       *replay
	agent   *selftest.Agent
	console *console.Console
	closed  bool

	// By recorded match bits of replies: our match bits, and the sequence number of one of our pings.
	ids  map[uint64]uint64
	seqs map[uint64]uint32
	// All sequence numbers of pings.
	recordedSeqs, ourSeqs []uint32

	bulk map[uint64]message.BRWRequest // bulk requests, by recorded match bits
	gets map[lnet.Handle]uint64        // match bits of bulk that was fetched
}

// startAgent starts selftest. Its clocks are set so that match bits and session stamps start like those
// of the recorded node.
func (p *replay) startAgent() {
	p.t.Helper()
	s := &selftester{p: p, ids: map[uint64]uint64{}, seqs: map[uint64]uint32{},
		bulk: map[uint64]message.BRWRequest{}, gets: map[lnet.Handle]uint64{}}
	first := uint64(0)
	var stamps []int64
	for _, u := range p.steps {
		if u.Kind == recording.KindMessage && u.Header.Type == lnet.MsgGet && u.Header.Portal == message.ReplyPortal {
			s.gets[u.Header.Handle] = u.Header.MatchBits
		}
		if !isRequest(&u.Unit) {
			continue
		}
		var brw message.BRWRequest
		if brw.Decode(u.Payload) == nil {
			s.bulk[brw.BulkID] = brw
		}
		if !u.ours {
			continue
		}
		if first == 0 {
			first = message.ReplyID(u.Payload)
		}
		var made message.MakeSessionRequest
		if made.Decode(u.Payload) == nil && !slices.Contains(stamps, made.Session.Stamp) {
			stamps = append(stamps, made.Session.Stamp)
		}
	}
	// Match bits begin with the low 16 bits of the seconds.
	seconds := p.begin.Unix()&^0xffff | int64(first>>48)
	var err error
	s.agent, err = selftest.Enable(p.node, selftest.Config{Wall: func() time.Time { return time.Unix(seconds, 0) }})
	if err != nil {
		p.t.Fatal(err)
	}
	s.console = console.New(p.node, s.agent, console.Config{Wall: func() time.Time {
		stamp := stamps[0]
		stamps = stamps[1:]
		return time.UnixMilli(stamp)
	}})
	p.selftest = s
	p.t.Cleanup(s.close)
}

func (s *selftester) close() {
	if s.closed {
		return
	}
	s.closed = true
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.console.Close(ctx); err != nil {
		s.p.t.Error(err)
	}
	if err := s.agent.Close(ctx); err != nil {
		s.p.t.Error(err)
	}
}

// end checks that no sessions are left, and stops selftest.
func (s *selftester) end() {
	s.p.t.Helper()
	if i, ok := s.agent.Session(); ok {
		s.p.t.Errorf("our node is still in session %+v", i)
	}
	if i, err := s.console.ShowSession(); err == nil {
		s.p.t.Errorf("our console still has session %+v", i)
	}
	c := s.agent.Counters()
	if c.Errors != 0 || c.Dropped != 0 || c.Expired != 0 {
		s.p.t.Errorf("errors were counted: %+v", c)
	}
	s.compareIDs()
	s.close()
}

// answers prepares for what a kernel will send to our node.
func (s *selftester) answers(u *recording.Unit) {
	s.p.t.Helper()
	if isRequest(u) && u.Header.MatchBits == uint64(message.ServiceStat) {
		// The unit asks for counters. Messages that were received may not be counted yet.
		none := func() bool { return s.p.node.Admin().Counters().Committed == 0 }
		if err := waitFor("the end of all messages", none); err != nil {
			s.p.t.Fatal(err)
		}
	}
	if s.toOurs(u) {
		rewrite(s.p.t, u)
	}
}

// awaitIdle waits until the units of our node have ended. The recorded queries came seconds later, but
// ours come at once.
func awaitIdle(p *replay) {
	if err := p.selftest.idle(); err != nil {
		p.t.Fatal(err)
	}
}

func (s *selftester) idle() error {
	return waitFor("the end of all units", func() bool {
		i, _ := s.agent.Session()
		for _, b := range i.Batches {
			if slices.ContainsFunc(b.Tests, func(t selftest.TestInfo) bool { return t.Active > 0 }) {
				return false
			}
		}
		return true
	})
}

// waitFor polls for an event that has no notification.
func waitFor(what string, come func() bool) error {
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	end := time.After(patience)
	for !come() {
		select {
		case <-look.C:
		case <-end:
			return fmt.Errorf("%s does not come", what)
		}
	}
	return nil
}

// lstSession is the commands of one session, from the first to the last.
type lstSession struct {
	name        string
	loop        int32
	concurrency int
	ping        bool
	brw         console.BRW
}

// lst runs the commands of sessions in our console, one after the other and without the pauses. Each
// command ends when the recorded nodes have answered.
func lst(sessions ...lstSession) func(p *replay) {
	return func(p *replay) {
		p.ask(func() error {
			for k := range sessions {
				if err := p.selftest.session(&sessions[k]); err != nil {
					return fmt.Errorf("session %s: %w", sessions[k].name, err)
				}
			}
			return nil
		})
	}
}

// session runs the commands of the recordings: new_session, add_group twice, add_batch, add_test, run,
// query, stop, show_error, end_session.
func (s *selftester) session(l *lstSession) error {
	ctx := context.Background()
	const key = 311
	c := s.console
	if _, err := c.NewSession(ctx, console.SessionOptions{Key: key, Name: l.name, Timeout: time.Minute}); err != nil {
		return err
	}
	for _, g := range [][2]string{{"c", "10.77.0.11@tcp"}, {"s", "10.77.0.12@tcp"}} {
		a, err := c.AddGroup(ctx, key, g[0], []string{g[1]})
		if err != nil || !a.Lists[0].Added || !a.Lists[0].Result.OK() {
			return fmt.Errorf("add_group %s: %+v, %w", g[0], a, err)
		}
	}
	if err := c.AddBatch(key, "b"); err != nil {
		return err
	}
	test := console.Test{
		Batch: "b", From: "c", To: "s", Kind: console.BulkTest, BRW: l.brw,
		Loop: l.loop, Concurrency: l.concurrency, Distribute: 1, Span: 1,
	}
	if l.ping {
		test.Kind = console.PingTest
	}
	if a, err := c.AddTest(ctx, key, test); err != nil || !a.OK() {
		return fmt.Errorf("add_test: %+v, %w", a, err)
	}
	if r, err := c.Run(ctx, key, "b", 0); err != nil || !r.OK() {
		return fmt.Errorf("run: %+v, %w", r, err)
	}
	if err := s.idle(); err != nil {
		return err
	}
	query := func() error {
		q, err := c.Query(ctx, key, "b", console.QueryOptions{})
		if err != nil || q.Idle != 1 || q.Running+q.Failed != 0 {
			return fmt.Errorf("query: %+v, %w", q, err)
		}
		return nil
	}
	if err := query(); err != nil {
		return err
	}
	if r, err := c.Stop(ctx, key, "b", false); err != nil || !r.OK() {
		return fmt.Errorf("stop: %+v, %w", r, err)
	}
	if err := query(); err != nil { // stop asks whether they have stopped
		return err
	}
	for _, g := range []string{"c", "s"} {
		sample, err := c.Stat(ctx, key, []string{g}, 0)
		if err != nil || sample.Targets[0].Failed != 0 || sample.Troubles(false)[0].Total() != 0 {
			return fmt.Errorf("show_error %s: %+v, %w", g, sample, err)
		}
	}
	return c.EndSession(ctx, key)
}
