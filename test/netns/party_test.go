package netns

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/rpc"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	lnetd "github.com/lnetd/lnetd/internal/lnetd/daemon"
	"github.com/lnetd/lnetd/internal/testing/daemontest"
	"github.com/lnetd/lnetd/internal/testing/namespace"
	"github.com/lnetd/lnetd/node"
)

// partyEnv is an environment variable that makes the test binary run as a loadedDaemon. Its value is the path of the
// configuration file.
const partyEnv = "LNETD_NETNS_PARTY"

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	for variable, serve := range roles {
		if argument := os.Getenv(variable); argument != "" {
			if err := serve(argument); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
			return 0
		}
	}
	var err error
	if scratch, err = namespace.Scratch("lnetd-netns-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	namespace.Sweep(namespaces)
	// Tests spend most of their time waiting for timeouts.
	if err := flag.Set("test.parallel", "8"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// serveParty runs lnetd with a load. Standard input and output carry the commands for the load. It ends
// at the end of the input, or by SIGTERM.
func serveParty(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	c, err := config.Parse(path, b, lnetd.AllDrivers().Options())
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	d := lnetd.New(c, lnetd.AllDrivers(), slog.New(slog.NewTextHandler(os.Stderr, nil)))
	d.Use("load", func(ctx context.Context, n *node.Node) error {
		l, err := newLoads(n)
		if err != nil {
			return err
		}
		s := rpc.NewServer()
		if err := s.RegisterName("Load", l); err != nil {
			return err
		}
		go func() {
			s.ServeConn(stdio{})
			stop()
		}()
		<-ctx.Done()
		return nil
	})
	return d.Run(ctx)
}

// stdio is standard input and output as one connection.
type stdio struct{}

func (stdio) Read(p []byte) (int, error)  { return os.Stdin.Read(p) }
func (stdio) Write(p []byte) (int, error) { return os.Stdout.Write(p) }
func (stdio) Close() error                { return errors.Join(os.Stdin.Close(), os.Stdout.Close()) }

// loadedDaemon is a running lnetd with a load.
type loadedDaemon struct {
	*daemon
	client *rpc.Client
}

// startLoaded starts a loadedDaemon on the host, with additions to its environment, and waits until it is ready.
func (h *host) startLoaded(t *testing.T, c *configuration, env ...string) *loadedDaemon {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	in, toParty := pipe(t)
	fromParty, out := pipe(t)
	p := &loadedDaemon{client: rpc.NewClient(duplex{fromParty, toParty})}
	t.Cleanup(func() { _ = p.client.Close() })
	p.daemon = h.run(t, append(env, partyEnv+"="+h.write(t, c)), in, out, self)
	if err := errors.Join(in.Close(), out.Close()); err != nil {
		t.Fatal(err)
	}
	// lnetd is ready. Wait until the load is ready, too.
	p.call(t, "Arrivals", 0, &Arrivals{})
	return p
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return r, w
}

// duplex is two pipes as one connection.
type duplex struct{ from, to *os.File }

func (d duplex) Read(p []byte) (int, error)  { return d.from.Read(p) }
func (d duplex) Write(p []byte) (int, error) { return d.to.Write(p) }
func (d duplex) Close() error                { return errors.Join(d.to.Close(), d.from.Close()) }

func (p *loadedDaemon) call(t *testing.T, method string, args, reply any) {
	t.Helper()
	call := p.client.Go("Load."+method, args, reply, make(chan *rpc.Call, 1))
	select {
	case <-call.Done:
	case <-time.After(callPatience):
		t.Fatalf("%s on %s: no answer in %v", method, p.host.nid(), callPatience)
	}
	if call.Error != nil {
		t.Fatalf("%s on %s: %v", method, p.host.nid(), call.Error)
	}
}

// callPatience is the time limit of a call. The longest call waits for the end of all operations.
const callPatience = answersDown + 2*lateness

// load is a running load.
type load struct {
	from, to *loadedDaemon
	number   int // in the match bits
	id       int // ID of the load on its daemon
}

// numbers gives each load a different number.
var numbers atomic.Int32

// begin starts to send from p to another loadedDaemon.
func (p *loadedDaemon) begin(t *testing.T, to *loadedDaemon, kind Plan) *load {
	t.Helper()
	l := &load{from: p, to: to, number: int(numbers.Add(1))}
	kind.To, kind.Number = to.host.nid(), l.number
	p.call(t, "Begin", &kind, &l.id)
	return l
}

// look returns the current report.
func (l *load) look(t *testing.T) *Report {
	t.Helper()
	var r Report
	l.from.call(t, "Look", l.id, &r)
	return &r
}

// end stops the load, waits until every operation has ended, and makes the checks that do not depend on
// the network: each operation had its events, payloads were right, acknowledged messages have arrived,
// and no message arrived twice.
func (l *load) end(t *testing.T) *Report {
	t.Helper()
	var r Report
	l.from.call(t, "End", l.id, &r)
	var a Arrivals
	l.to.call(t, "Arrivals", l.number, &a)
	for _, f := range append(r.Findings, a.Findings...) {
		t.Errorf("%s to %s: %s", l.from.host.nid(), l.to.host.nid(), f)
	}
	if missing := r.Acknowledged.without(a.Arrived); missing != 0 {
		t.Errorf("%s to %s: %d PUTs were acknowledged and have not arrived", l.from.host.nid(), l.to.host.nid(), missing)
	}
	t.Logf("%s to %s: %s", l.from.host.nid(), l.to.host.nid(), &r)
	return &r
}

// awaitProgress waits until n more operations have succeeded.
func (l *load) awaitProgress(t *testing.T, n uint64, patience time.Duration) {
	t.Helper()
	before := l.look(t).done()
	daemontest.Within(t, patience, "the load goes on", func() error {
		if now := l.look(t).done(); now < before+n {
			return fmt.Errorf("%d operations since, want %d", now-before, n)
		}
		return nil
	})
}

// wantRest checks that nothing is in progress on a daemon.
func (d *daemon) wantRest(t *testing.T) {
	t.Helper()
	daemontest.Within(t, answersDown, "rest on "+d.host.nid(), func() error {
		if c := d.counters(t); c.Committed != 0 {
			return fmt.Errorf("%d messages committed", c.Committed)
		}
		return nil
	})
}
