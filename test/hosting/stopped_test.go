package hosting

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/testing/process"
	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/remote"
	"github.com/lnetd/lnetd/transport/remote/protocol"
	"github.com/lnetd/lnetd/transport/shm"
)

// A client that is stopped and continued works on. Only clients that wait for it notice.
//
// transport 9.10
func TestStopped(t *testing.T) {
	d := launch(t, settings{host: 1})
	at := func(n int) string { return fmt.Sprintf("%s:12345:34:%d", d.nid, n) }
	echo := enter(t, order{Role: "echo", Socket: d.socket, At: at(1)})
	ping := enter(t, order{Role: "ping", Socket: d.socket, At: at(2), To: at(1)})
	idleEcho := enter(t, order{Role: "echo", ID: 1, Socket: d.socket, At: at(3)})
	stopped := enter(t, order{Role: "ping", ID: 1, Socket: d.socket, At: at(4), To: at(3)})
	for _, g := range []*guest{stopped, idleEcho} {
		var p pingReport
		ping.AskInto("report", "report", &p)
		stopped.AskInto("report", "report", &p)
		g.Signal(syscall.SIGSTOP)
		pause := 300 * time.Millisecond
		if *long {
			pause = 5 * time.Second // shorter than the time after which ping counts a loss
		}
		for p.N = 0; p.N == 0; {
			time.Sleep(pause)
			ping.AskInto("report", "report", &p)
		}
		t.Logf("%s %d is stopped for %v; others: %v", g.order.Role, g.order.ID, pause, &p)
		if p.Lost > 0 || p.Troubles > 0 {
			t.Errorf("others: %v", &p)
		}
		g.Signal(syscall.SIGCONT)
		var after pingReport
		within(t, patience, "it goes on", func() bool {
			stopped.AskInto("report", "report", &p)
			after.N += p.N
			after.Lost += p.Lost
			after.Troubles += p.Troubles
			return after.N > 100
		})
		if after.Lost > 0 || after.Troubles > 0 {
			t.Errorf("it goes on with %v", &after)
		}
	}
	for _, g := range []*guest{ping, stopped, echo, idleEcho} {
		g.Leave()
	}
	d.wantHealthy()
}

// exhaustQuota takes as much of each kind of resource as possible, prints the error that ends this, and
// keeps the resources. After it frees some it can get them again.
func exhaustQuota(ctx context.Context, o order, in *bufio.Scanner) error {
	d, err := transport.NewDomain(ctx, remote.New(remote.Config{Path: o.Socket, Program: o.Role, Completions: 16}))
	if err != nil {
		return err
	}
	refusals := make(map[string]string)
	var last *transport.Buffer
	for {
		b, err := d.Buffer(ctx, 1<<20)
		if err != nil {
			refusals["buffer"] = err.Error()
			if !errors.Is(err, syscall.EDQUOT) {
				return err
			}
			break
		}
		last = b
	}
	if err := d.Free(last); err != nil {
		return err
	}
	if _, err := d.Buffer(ctx, 1<<20); err != nil {
		return fmt.Errorf("what was given back: %w", err)
	}
	var tm *transport.TransferMachine
	for {
		next, err := d.Open(ctx, o.At, nil)
		if err != nil {
			refusals["TM"] = err.Error()
			if !errors.Is(err, syscall.EDQUOT) {
				return err
			}
			break
		}
		tm = next
	}
	if err := tm.Shutdown(ctx); err != nil {
		return err
	}
	if _, err := d.Open(ctx, o.At, nil); err != nil {
		return fmt.Errorf("what was given back: %w", err)
	}
	process.Say("greedy", refusals)
	fmt.Println("up")
	_, err = io.Copy(io.Discard, endlessReader{in})
	return err
}

// endlessReader reads all lines of the input.
type endlessReader struct{ in *bufio.Scanner }

func (n endlessReader) Read([]byte) (int, error) {
	if n.in.Scan() {
		return 0, nil
	}
	return 0, io.EOF
}

// A client that takes everything that its rule permits learns which quota it has reached. Others
// are not affected.
//
// transport 9.8
// transport-tests P (122)
func TestQuotas(t *testing.T) {
	d := launch(t, settings{host: 1, each: ", tms: 8, areas: 8, memory: 64"})
	echo := enter(t, order{Role: "echo", Socket: d.socket, At: d.nid + ":12345:34:1"})
	ping := enter(t, order{Role: "ping", Socket: d.socket, At: d.nid + ":12345:34:2", To: d.nid + ":12345:34:1"})
	before := d.figures()
	g := begin(t, order{Role: "greedy", Socket: d.socket, At: d.nid + ":12345:39:*"})
	var refusals map[string]string
	if text := g.Expect("greedy"); json.Unmarshal([]byte(text), &refusals) != nil {
		t.Fatalf("%q", text)
	}
	g.Expect("up")
	t.Logf("%q", refusals)
	for what, words := range map[string]string{"buffer": "exceed the limit of 8 for a connection", "TM": "TMs exceed the limit of 8 for a connection"} {
		if !strings.Contains(refusals[what], words) {
			t.Errorf("%s: %q", what, refusals[what])
		}
	}
	var p pingReport
	ping.AskInto("report", "report", &p)
	if err := g.Kill(); err != nil {
		t.Error(err)
	}
	within(t, patience, "it is gone", func() bool { return d.pids()[g.PID()] == 0 })
	d.wantUnchanged(before)
	ping.AskInto("report", "report", &p)
	if p.Lost > 0 || p.Troubles > 0 {
		t.Errorf("others: %v", &p)
	}
	ping.Leave()
	echo.Leave()
	d.wantHealthy()
}

// queueWithoutReading queues a buffer for as many messages as possible, and never reads a completion.
func queueWithoutReading(_ context.Context, o order, in *bufio.Scanner) error {
	p, err := rawJoin(o.Socket, o.Role)
	if err != nil {
		return err
	}
	defer p.close()
	area, m, fd, err := p.share(1 << 16)
	if err != nil {
		return err
	}
	defer func() { _, _ = m.Close(), unix.Close(fd) }()
	b, err := p.register(area, 0, 1<<16)
	if err != nil {
		return err
	}
	r, err := p.start(o.At, 16)
	if err != nil {
		return err
	}
	c, err := r.attach()
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	s := shm.Submission{Opcode: shm.OpMsgRecv, Buffer: b.Index, Generation: b.Generation, Operation: 1, MinReceive: 64, MaxMessages: 4}
	if ok, err := c.Submissions.Put(&s); !ok {
		return err
	}
	c.Submissions.Publish()
	c.Submissions.Ring()
	fmt.Println("up")
	for in.Scan() {
		var counters protocol.Counters
		if err := p.ask(&protocol.StatsGet{Handle: r.handle}, &counters); err != nil {
			return fmt.Errorf("%w, %s", err, p.cutOff)
		}
		process.Say("counters", counters.Completions)
	}
	return nil
}

// A client that never reads its completions gets as many as it has reserved room for, and no more.
// Its senders and other clients do not notice.
//
// transport 9.4, 9.9 (7)
func TestNobodyConsumes(t *testing.T) {
	d := launch(t, settings{host: 1})
	to := d.nid + ":12345:34:3"
	before := d.figures()
	g := enter(t, order{Role: "glutton", Socket: d.socket, At: to})
	sender := enter(t, order{Role: "worker", Seed: 1, Socket: d.socket, At: d.nid + ":12345:34:4", To: to, File: testenv.SocketDir(t) + "/ledger"})
	var completions uint64
	within(t, patience, "the ring is full", func() bool {
		g.AskInto("", "counters", &completions)
		return completions == 4
	})
	within(t, patience, "more was sent", func() bool {
		all, err := readEntries(sender.order.File)
		return err == nil && len(all) > 6
	})
	g.AskInto("", "counters", &completions)
	if completions != 4 {
		t.Errorf("%d completions", completions)
	}
	sender.Leave()
	g.Leave()
	within(t, patience, "nobody is left", func() bool { return len(d.pids()) == 0 })
	d.wantUnchanged(before)
	d.wantHealthy()
}
