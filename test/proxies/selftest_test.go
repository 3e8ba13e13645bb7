package proxies

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selftest"
	"github.com/lnetd/lnetd/selftest/console"
	"github.com/lnetd/lnetd/selftest/pattern"
)

// batch is the name of the batch of each load.
const batch = "bulk"

// load is LNet selftest between two stations, with payloads that are checked in full.
type load struct {
	t              *testing.T
	client, server *selftest.Agent
	console        *console.Console
	key            console.Key
	// corrupt counts payloads with other content than was sent.
	corrupt corruptions
}

// startLoad prepares a load until the end of the test. The client is the console too. If inject is not 0, the nodes
// corrupt payloads (selftest.Config.InjectErrors).
func startLoad(t *testing.T, client, server *station, inject int) *load {
	t.Helper()
	l := &load{t: t}
	l.client, l.server = l.enable(client.node, inject), l.enable(server.node, inject)
	l.console = console.New(client.node, l.client, console.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := l.console.NewSession(ctx, console.SessionOptions{Name: "kills", Timeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	l.key = s.Key
	for group, s := range map[string]*station{"c": client, "s": server} {
		if _, err := l.console.AddGroup(ctx, l.key, group, []string{s.id.NID.String()}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.console.AddBatch(l.key, batch); err != nil {
		t.Fatal(err)
	}
	for _, write := range []bool{false, true} {
		for _, size := range []int{4 << 10, 1 << 20} {
			added, err := l.console.AddTest(ctx, l.key, console.Test{
				Batch: batch, From: "c", To: "s", Kind: console.BulkTest, Loop: -1, Concurrency: 2, Distribute: 1, Span: 1,
				BRW: console.BRW{Write: write, Size: size, Check: "full"},
			})
			if err != nil || !added.OK() {
				t.Fatalf("add test: %+v: %v", added, err)
			}
		}
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_, _ = l.console.Stop(ctx, l.key, batch, true)
		if err := l.console.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return l
}

// enable makes a node take part in selftest until the end of the test.
func (l *load) enable(n *node.Node, inject int) *selftest.Agent {
	l.t.Helper()
	a, err := selftest.Enable(n, selftest.Config{
		SessionTimeout: -1, RPCTimeout: 4 * time.Second, InjectErrors: inject, Logger: slog.New(&l.corrupt),
	})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := a.Close(ctx); err != nil {
			l.t.Error(err)
		}
	})
	return a
}

// restart runs the batch again, all of whose units may have ended because of an error.
func (l *load) restart() {
	l.t.Helper()
	within(l.t, "selftest runs again", func() bool {
		ctx, cancel := context.WithTimeout(l.t.Context(), 10*time.Second)
		defer cancel()
		_, _ = l.console.Stop(ctx, l.key, batch, true)
		q, err := l.console.Query(ctx, l.key, batch, console.QueryOptions{})
		if err != nil || q.Running > 0 {
			return false
		}
		r, err := l.console.Run(ctx, l.key, batch, 0)
		return err == nil && r.OK()
	})
}

// errors returns the number of RPCs that have failed or expired, and of tests that have.
func (l *load) errors() int {
	n := l.client.Counters().Errors + l.client.Counters().Expired + l.server.Counters().Errors + l.server.Counters().Expired
	if s, ok := l.client.Session(); ok {
		n += s.BRWErrors
	}
	return int(n)
}

// done returns the number of RPCs that the server has received.
func (l *load) done() int { return int(l.server.Counters().Received) }

// corruptions is the handler of an agent's log. It counts requests that failed because their payload was wrong.
type corruptions struct {
	n    atomic.Uint64
	last atomic.Value // text of the last error
}

func (c *corruptions) Enabled(context.Context, slog.Level) bool { return true }
func (c *corruptions) WithAttrs([]slog.Attr) slog.Handler       { return c }
func (c *corruptions) WithGroup(string) slog.Handler            { return c }

func (c *corruptions) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		err, ok := a.Value.Any().(error)
		var mismatch *pattern.MismatchError
		if ok && (errors.As(err, &mismatch) || errors.Is(err, syscall.EBADMSG)) {
			c.n.Add(1)
			c.last.Store(fmt.Sprint(r.Message, ": ", err))
		}
		return true
	})
	return nil
}

// A load finds payloads that were corrupted on their way, in each direction.
func TestLoadFindsCorruption(t *testing.T) {
	const port = 9977
	var all []*station
	for k := range byte(2) {
		d := newDriver(t, "", port)
		n := newNode(t, node.Config{})
		addNI(t, n, d, loopback(tcp(0), 71+k))
		all = append(all, newStation(t, n, uint64(k)))
	}
	l := startLoad(t, all[0], all[1], 1000)
	l.restart()
	within(t, "wrong payloads are found", func() bool { return l.corrupt.n.Load() == 8 }) // one of each unit
}
