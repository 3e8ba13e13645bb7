package hosting

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/process"
	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/remote"
)

// chatters is the number of TMs of a chatter.
const chatters = 4

// chatter has four TMs, each of which sends to the next one as fast as it can, with two messages in
// progress.
type chatter struct {
	domain         *transport.Domain
	tms            []*transport.TransferMachine
	peers          []*transport.EndPoint
	all, sends     []*transport.Buffer
	come, troubles atomic.Int64
	over           atomic.Bool
}

// exchangeMessages is a chatter that begins on "go". It answers requests with the number of messages
// received since the last request.
func exchangeMessages(ctx context.Context, o order, in *bufio.Scanner) error {
	d, err := transport.NewDomain(ctx, remote.New(remote.Config{Path: o.Socket, Program: o.Role, Completions: 64}))
	if err != nil {
		return err
	}
	c := &chatter{domain: d}
	if err := c.prepare(ctx, o.At); err != nil {
		return err
	}
	at := make([]string, len(c.tms))
	for i, tm := range c.tms {
		at[i] = tm.Self().String()
	}
	process.Say("up", at)
	for in.Scan() {
		if in.Text() == "go" {
			for i, b := range c.sends {
				if err := c.tms[i/2].Add(b); err != nil {
					return err
				}
			}
		}
		process.Say("report", []int64{c.come.Swap(0), c.troubles.Load()})
	}
	return c.end(ctx)
}

func (c *chatter) prepare(ctx context.Context, at string) error {
	for range chatters {
		tm, err := c.domain.Open(ctx, at, nil)
		if err != nil {
			return err
		}
		c.tms = append(c.tms, tm)
	}
	callbacks := &transport.Callbacks{transport.MsgRecv: c.again, transport.MsgSend: c.again}
	for i, tm := range c.tms {
		to, err := tm.EndPoint(c.tms[(i+1)%chatters].Self().String())
		if err != nil {
			return err
		}
		c.peers = append(c.peers, to)
		for k := range 16 {
			b, err := c.domain.Buffer(ctx, messageSize)
			if err != nil {
				return err
			}
			b.Callbacks, b.MinReceiveSize, b.MaxMessages, b.Length = callbacks, messageSize, 1, 64
			c.all = append(c.all, b)
			if k >= 14 {
				b.Queue, b.EndPoint = transport.MsgSend, to
				c.sends = append(c.sends, b)
				continue
			}
			b.Queue = transport.MsgRecv
			if err := tm.Add(b); err != nil {
				return err
			}
		}
	}
	return nil
}

// again repeats the operation of a buffer.
func (c *chatter) again(e *transport.BufferEvent) {
	if c.over.Load() {
		return
	}
	if e.Err == nil && e.Queue == transport.MsgRecv {
		c.come.Add(1)
	}
	if e.Err != nil || e.Add(e.Buffer) != nil {
		c.troubles.Add(1)
	}
}

func (c *chatter) end(ctx context.Context) error {
	c.over.Store(true)
	for _, p := range c.peers {
		p.Put()
	}
	for _, tm := range c.tms {
		if err := tm.Shutdown(ctx); err != nil {
			return err
		}
	}
	for _, b := range c.all {
		if err := c.domain.Free(b); err != nil {
			return err
		}
	}
	return c.domain.Close()
}

// 64 processes, with four TMs each that choose their numbers, are all active at once. All numbers
// differ, and each process gets its share. The long form reports the cost, and checks that the
// shares differ by at most 20 %.
//
// transport 9.9 (10)
// transport-tests N (110)
// r.M0.net.xprt.lnet.user.multi-process
func TestManyActive(t *testing.T) {
	n, each := testenv.Fewer(64), 300*time.Millisecond
	if *long {
		n, each = 64, 30*time.Second
	}
	d := launch(t, settings{host: 1})
	before := d.figures()
	var all []*guest
	for i := range n {
		all = append(all, begin(t, order{Role: "chatter", ID: i, Socket: d.socket, At: d.nid + ":12345:40:*"}))
	}
	numbers := map[string]int{}
	for _, g := range all {
		var at []string
		if err := json.Unmarshal([]byte(g.Expect("up")), &at); err != nil || len(at) != chatters {
			t.Fatalf("client %d: %q, %v", g.order.ID, at, err)
		}
		for _, a := range at {
			numbers[a]++
			if numbers[a] > 1 {
				t.Errorf("%s has %d TMs", a, numbers[a])
			}
		}
	}
	idle := d.figures()
	var counts []int64
	round := func(command string) {
		counts = counts[:0]
		for _, g := range all {
			var r []int64
			g.AskInto(command, "report", &r)
			counts = append(counts, r[0])
			if r[1] != 0 {
				t.Errorf("client %d: %d troubles", g.order.ID, r[1])
			}
		}
	}
	round("go")
	time.Sleep(each / 5)
	round("report")
	used := d.figures().processor
	time.Sleep(each)
	round("report")
	busy := d.figures()
	slices.Sort(counts)
	total := int64(0)
	for _, c := range counts {
		total += c
	}
	least, most := counts[0], counts[len(counts)-1]
	t.Logf("%d clients with %d TMs each, %v: %d messages, %d to %d per client (median %d, least/most %.3f), lnetd's processor time %v",
		n, chatters, each, total, least, most, counts[len(counts)/2], float64(least)/float64(most), busy.processor-used)
	t.Logf("lnetd: empty %v; all in %v; busy %v; that is %.1f KiB of RSS per client",
		before, idle, busy, float64(busy.rss-before.rss)/1024/float64(n))
	if *long && float64(least) < 0.8*float64(most) {
		t.Errorf("%d to %d messages per client", least, most)
	}
	for _, g := range all {
		g.Leave()
	}
	within(t, patience, "nobody is left", func() bool { return len(d.pids()) == 0 })
	d.wantHealthy()
}

// holdIdleDomains has o.ID idle domains, each with a TM and a buffer on it.
func holdIdleDomains(ctx context.Context, o order, in *bufio.Scanner) error {
	core := remote.New(remote.Config{Path: o.Socket, Program: o.Role, Completions: 64})
	for range o.ID {
		d, err := transport.NewDomain(ctx, core)
		if err != nil {
			return err
		}
		tm, err := d.Open(ctx, o.At, nil)
		if err != nil {
			return err
		}
		b, err := d.Buffer(ctx, messageSize)
		if err != nil {
			return err
		}
		b.Callbacks = &transport.Callbacks{transport.MsgRecv: func(*transport.BufferEvent) {}}
		b.Queue, b.MinReceiveSize, b.MaxMessages = transport.MsgRecv, messageSize, 1
		if err := tm.Add(b); err != nil {
			return err
		}
	}
	fmt.Println("up")
	for in.Scan() {
	}
	return nil // the kernel closes everything
}

// wakeups returns how often threads of a process have waited so far.
func wakeups(t *testing.T, pid int) (n int) {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range threads {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has ended
		}
		_, after, _ := strings.Cut(string(text), "\nvoluntary_ctxt_switches:")
		var one int
		_, _ = fmt.Sscan(after, &one) // 0 if there is no such line
		n += one
	}
	return n
}

// Many idle clients use memory, but no processor time, and lnetd does not wake because of them.
func TestManyIdle(t *testing.T) {
	processes, each, length := 2, 16, 200*time.Millisecond
	if *long {
		processes, each, length = 16, 63, 20*time.Second
	}
	d := launch(t, settings{host: 1})
	before := d.figures()
	pid := d.cmd.Process.Pid
	emptyTime, emptyWakeups := processorTime(t, pid), wakeups(t, pid)
	time.Sleep(length)
	emptyTime, emptyWakeups = processorTime(t, pid)-emptyTime, wakeups(t, pid)-emptyWakeups
	var all []*guest
	for range processes {
		all = append(all, enter(t, order{Role: "crowd", ID: each, Socket: d.socket, At: d.nid + ":12345:41:*"}))
	}
	n := processes * each
	time.Sleep(length) // Go's runtime returns memory that was used while the clients connected
	during := d.figures()
	woken := wakeups(t, pid)
	time.Sleep(length)
	used := processorTime(t, pid) - during.processor
	woken = wakeups(t, pid) - woken
	t.Logf("%d idle clients, of %d processes: %v of lnetd's processor time and %d wake-ups in %v; without clients %v and %d",
		n, processes, used, woken, length, emptyTime, emptyWakeups)
	if *long && woken > 2*emptyWakeups+n/2 {
		t.Errorf("%d wake-ups in %v, %d without clients", woken, length, emptyWakeups)
	}
	t.Logf("lnetd: empty %v; with them %v; that is %.1f KiB of RSS, %.1f fds, %.1f maps, %.1f goroutines per client", before, during,
		float64(during.rss-before.rss)/1024/float64(n), float64(during.fds-before.fds)/float64(n),
		float64(during.maps-before.maps)/float64(n), float64(during.goroutines-before.goroutines)/float64(n))
	for _, g := range all {
		g.Leave()
	}
	within(t, patience, "nobody is left", func() bool { return len(d.pids()) == 0 })
	within(t, patience, "what they had is free", func() bool {
		now := d.figures()
		return now.memfds <= before.memfds && now.memfdMaps <= before.memfdMaps && now.fds <= before.fds+8 && now.goroutines <= before.goroutines+4
	})
	d.wantHealthy()
}
