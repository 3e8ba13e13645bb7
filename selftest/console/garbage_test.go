package console

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lnetd/lnetd/selftest/message"
)

// headerSize and statusEnd are the ends of the parts of a reply that must be valid for the rest to be
// decoded: the header and the status.
const (
	headerSize = 24
	statusEnd  = headerSize + 4
)

// garbage answers like obedient, but most answers are too short, too long, or have changed bytes. About
// half of the sessions are made. Its calls must not overlap.
func garbage(r *rand.Rand) func(q message.Request) []byte {
	good := obedient(1)
	scramble := func(b []byte) {
		for k := range b {
			b[k] = byte(r.Uint32())
		}
	}
	return func(q message.Request) []byte {
		b := good(q)
		if _, ok := q.(*message.MakeSessionRequest); ok && r.IntN(2) == 0 {
			return b
		}
		switch r.IntN(7) {
		case 0:
			return nil
		case 1:
			return b[:r.IntN(len(b))]
		case 2:
			return append(b, make([]byte, 1000)...)
		case 3:
			scramble(b[headerSize:])
		case 4:
			scramble(b[statusEnd:])
		case 5:
			for range 1 + r.IntN(20) {
				b[r.IntN(len(b))] = byte(r.Uint32())
			}
		}
		return b
	}
}

// Given nodes that answer every request with garbage, when all commands are given, then each returns, and
// the session ends everywhere.
func TestNodesThatAnswerGarbage(t *testing.T) {
	for seed := range uint64(8) {
		onStage(t, 1, func(t *testing.T, s *stage) {
			s.slow()
			s.act("10.0.0.50", garbage(rand.New(rand.NewPCG(seed, 1))))
			s.act("10.0.0.51", garbage(rand.New(rand.NewPCG(seed, 2))))
			s.session()
			ctx, cancel := context.WithTimeout(s.ctx, 10*time.Minute)
			defer cancel()
			for range 6 {
				s.everything(ctx, "10.0.0.[50-51]@tcp", ids("1"))
			}
			if ctx.Err() != nil {
				t.Error("a command has not come back")
			}
			began := time.Now()
			if err := s.EndSession(s.ctx, key); err != nil {
				t.Errorf("end: %v", err)
			}
			if took := time.Since(began); took > 2*time.Minute {
				t.Errorf("the end took %v", took)
			}
			s.empty(s.nodes...)
		})
	}
}

// everything gives all commands that send requests to nodes, to odd nodes and good ones. It ignores the
// results.
func (s *stage) everything(ctx context.Context, odd, good string) {
	s.t.Helper()
	_, _ = s.AddGroup(ctx, key, "c", []string{odd})
	_, _ = s.AddGroup(ctx, key, "s", []string{good})
	_, _ = s.RefreshGroup(ctx, key, "c")
	q := pingTest()
	q.Loop = 3
	_, _ = s.AddTest(ctx, key, q)
	q.From, q.To = "s", "c"
	_, _ = s.AddTest(ctx, key, q)
	_, _ = s.Run(ctx, key, "batch", time.Second)
	for k := range 3 {
		_, _ = s.Query(ctx, key, "batch", QueryOptions{Test: k, Servers: k == 2, Timeout: minLimit})
	}
	_, _ = s.Ping(ctx, key, Target{Nodes: []string{odd, good}}, minLimit)
	old, err := s.Stat(ctx, key, []string{odd}, minLimit)
	if err != nil {
		s.t.Errorf("stat: %v", err)
	}
	_ = old.Troubles(false)
	now, err := s.Stat(ctx, key, []string{odd}, minLimit)
	if err != nil {
		s.t.Errorf("stat: %v", err)
	}
	if _, err := now.Since(old); err != nil {
		s.t.Errorf("an interval: %v", err)
	}
	_, _ = s.Stop(ctx, key, "batch", true)
	_, _ = s.CleanGroup(ctx, key, "c", Invalid)
}
