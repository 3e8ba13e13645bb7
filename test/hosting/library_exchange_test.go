package hosting

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/remote"
)

// beAsker exchanges messages with an echo, one at a time: for each number in its input as many, and then it
// says how long that took.
func beAsker(ctx context.Context, o order, in *bufio.Scanner) error {
	start := join
	if o.Kind == waits {
		start = joinSynchronously
	}
	tm, err := start(ctx, o, 64)
	if err != nil {
		return err
	}
	p := &pinger{tm: tm, answers: make(chan uint64, 64), sent: make(chan error, 64)}
	if err := p.prepare(ctx, o.To); err != nil {
		return err
	}
	fmt.Println("up")
	for in.Scan() {
		n, err := strconv.Atoi(in.Text())
		if err != nil {
			return err
		}
		began := time.Now()
		for range n {
			if err := p.exchange(o.Kind == waits); err != nil {
				return err
			}
		}
		fmt.Println("time", time.Since(began).Nanoseconds())
	}
	p.out.EndPoint.Put()
	if o.Kind == waits {
		go func() {
			for more := true; more; { // until the TM has stopped
				more = deliver(tm) == nil
			}
		}()
	}
	return depart(ctx, tm, append(p.rooms, p.out)...)
}

// waits is the kind of an asker that waits for events itself. Otherwise the TM's worker calls the callbacks, which wake
// the asker.
const waits = "waits"

// joinSynchronously is join for a program that calls deliver.
func joinSynchronously(ctx context.Context, o order, completions int) (*transport.TransferMachine, error) {
	d, err := transport.NewDomain(ctx, remote.New(remote.Config{Path: o.Socket, Program: o.Role, Completions: completions}))
	if err != nil {
		return nil, err
	}
	tm, err := d.NewTM(nil)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(tm.DeliverSynchronously(), tm.Start(o.At)); err != nil {
		return nil, err
	}
	return tm, tm.Await(ctx, transport.StateStarted)
}

// deliver waits for events and calls their callbacks.
func deliver(tm *transport.TransferMachine) error {
	if err := tm.Wait(time.Time{}); err != nil {
		return err
	}
	_, err := tm.DeliverAll()
	return err
}

// exchange sends a message, and waits until it was sent and the answer has come. With waits it delivers the events
// itself.
func (p *pinger) exchange(waits bool) error {
	p.number++
	binary.LittleEndian.PutUint64(p.out.Bytes(), p.number)
	if err := p.tm.Add(p.out); err != nil {
		return err
	}
	for waits && (len(p.sent) == 0 || len(p.answers) == 0) {
		if err := deliver(p.tm); err != nil {
			return err
		}
	}
	if err := <-p.sent; err != nil {
		return err
	}
	for n := p.number - 1; n != p.number; {
		n = <-p.answers
	}
	return nil
}

// pair is two programs that exchange messages, and what that has cost in each round.
type pair struct {
	name string
	ask  *guest
	pids []int // of both
	// Per exchange, in µs: the time, processor time of both, and processor time of all lnetd.
	time, own, daemons []float64
	ratio              []float64 // of the time to that of the floor
}

// exchangeBench is a run of BenchmarkLibraryExchange over some lnetd.
type exchangeBench struct {
	t        testing.TB
	hosts    []*daemon // of the asker, and of the echo
	pairs    []*pair   // the first is the floor
	perRound int
}

// startExchanges starts lnetd, one or two, and all pairs.
func startExchanges(t testing.TB, count, perRound int) *exchangeBench {
	t.Helper()
	testenv.NeedCommand(t, "python3", "python3")
	x := &exchangeBench{t: t, perRound: perRound}
	port := freePort(t, address(1), address(2))
	for host := range count {
		x.hosts = append(x.hosts, launch(t, settings{host: host + 1, listen: port}))
	}
	x.addFloor([]string{"eventfd", "tcp"}[count-1])
	for i, spin := range []string{"-", "0"} { // "0": programs sleep at once
		x.add([]string{"C", "C-asleep"}[i], 1+i, func(arguments ...string) *guest {
			c := exec.Command(library.compile(t, "exchange.c"), append([]string{spin}, arguments...)...)
			return run(t, order{Role: "exchange.c"}, c)
		})
	}
	for i, kind := range []string{waits, "callbacks"} {
		x.add([]string{"Go", "Go-async"}[i], 3+i, func(arguments ...string) *guest {
			o := order{Role: "echo", Socket: arguments[1], At: arguments[2]}
			if arguments[0] == "ask" {
				o.Role, o.To, o.Kind = "asker", arguments[3], kind
			}
			return begin(t, o)
		})
	}
	x.add("Python", 5, func(arguments ...string) *guest {
		modules, err := filepath.Abs("../../client/python")
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("python3", append([]string{"-B", "testdata/exchange.py"}, arguments...)...)
		cmd.Env = append(os.Environ(), "PYTHONPATH="+modules, "LD_LIBRARY_PATH="+library.dir)
		return run(t, order{Role: "exchange.py"}, cmd)
	})
	for _, p := range x.pairs {
		x.cost(p) // the first exchanges are slower
	}
	return x
}

// addFloor starts two processes that exchange messages without lnetd.
func (x *exchangeBench) addFloor(kind string) {
	x.t.Helper()
	g := run(x.t, order{Role: kind}, exec.Command(library.compile(x.t, "floor.c"), kind))
	child, err := strconv.Atoi(g.Expect("up"))
	if err != nil {
		x.t.Fatal(err)
	}
	x.pairs = append(x.pairs, &pair{name: kind, ask: g, pids: []int{g.PID(), child}})
}

// add starts an echo and an asker.
func (x *exchangeBench) add(name string, number int, start func(arguments ...string) *guest) {
	x.t.Helper()
	near, far := x.hosts[0], x.hosts[len(x.hosts)-1]
	at := fmt.Sprintf("%s:12345:34:%d", far.nid, number)
	echo := start("echo", far.socket, at)
	echo.Expect("up")
	ask := start("ask", near.socket, fmt.Sprintf("%s:12345:35:%d", near.nid, number), at)
	ask.Expect("up")
	x.pairs = append(x.pairs, &pair{name: name, ask: ask, pids: []int{ask.PID(), echo.PID()}})
}

// cost makes exchanges of a pair, and returns what one has cost, in µs.
func (x *exchangeBench) cost(p *pair) (elapsed, own, daemons float64) {
	x.t.Helper()
	var pids []int
	for _, d := range x.hosts {
		pids = append(pids, d.cmd.Process.Pid)
	}
	own, daemons = -x.processor(p.pids), -x.processor(pids)
	ns, err := strconv.ParseFloat(p.ask.Ask(strconv.Itoa(x.perRound), "time"), 64)
	if err != nil {
		x.t.Fatal(err)
	}
	own += x.processor(p.pids)
	daemons += x.processor(pids)
	n := float64(x.perRound) * 1e3
	return ns / n, own / n, daemons / n
}

// processor returns the processor time that processes have used, in ns.
func (x *exchangeBench) processor(pids []int) (sum float64) {
	x.t.Helper()
	const perProcess = 2 // CPUCLOCK_SCHED of clock_getcpuclockid
	for _, pid := range pids {
		var used unix.Timespec
		if err := unix.ClockGettime(int32(^pid<<3|perProcess), &used); err != nil {
			x.t.Fatalf("processor time of process %d: %v", pid, err)
		}
		sum += float64(used.Nano())
	}
	return sum
}

// round measures all pairs, one after the other.
func (x *exchangeBench) round() {
	x.t.Helper()
	for _, p := range x.pairs {
		elapsed, own, daemons := x.cost(p)
		p.time, p.own, p.daemons = append(p.time, elapsed), append(p.own, own), append(p.daemons, daemons)
		p.ratio = append(p.ratio, elapsed/x.pairs[0].time[len(p.time)-1])
	}
}

// String returns a table of medians.
func (x *exchangeBench) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "medians of %d rounds of %d exchanges; processor time of both programs, and of lnetd\n", len(x.pairs[0].time), x.perRound)
	fmt.Fprintf(&b, "%-8s %10s %8s %17s %14s %10s\n", "", "round trip", "ratio", "quartiles", "programs", "lnetd")
	for _, p := range x.pairs {
		fmt.Fprintf(&b, "%-8s %7.1f µs %8.2f %8.2f %8.2f %11.1f µs %7.1f µs\n", p.name, quantile(p.time, 2), quantile(p.ratio, 2),
			quantile(p.ratio, 1), quantile(p.ratio, 3), quantile(p.own, 2), quantile(p.daemons, 2))
	}
	return b.String()
}

// quantile returns a quartile of a sample: the median is number 2.
func quantile(sample []float64, quarters int) float64 {
	s := slices.Sorted(slices.Values(sample))
	return s[min(len(s)-1, len(s)*quarters/4)]
}

// The programs of BenchmarkLibraryExchange exchange messages over one lnetd and over two.
func TestLibraryExchange(t *testing.T) {
	for i, name := range []string{"one lnetd", "two"} {
		t.Run(name, func(t *testing.T) {
			x := startExchanges(t, i+1, 10)
			x.round()
			t.Logf("\n%v", x)
		})
	}
}

// A round trip of 64 bytes between two programs, and what it costs: in C, with and without a spin before they sleep, Go
// and Python, over one lnetd and over two, beside two processes with system calls only. -benchtime 25x is the number of
// rounds.
func BenchmarkLibraryExchange(b *testing.B) {
	for i, name := range []string{"one", "two"} {
		b.Run(name, func(b *testing.B) {
			x := startExchanges(b, i+1, 500)
			for b.Loop() {
				x.round()
			}
			for _, p := range x.pairs {
				b.ReportMetric(quantile(p.time, 2), p.name+"-µs")
			}
			b.Logf("\n%v", x)
		})
	}
}
