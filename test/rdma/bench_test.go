//go:build o2ib && cgo

package rdma

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// BenchmarkOnDevices starts this program again as a passive node. The variable has its address and its
// time to poll.
const passive = "LNETD_TEST_RDMA_PASSIVE"

func TestMain(m *testing.M) {
	if args := os.Getenv(passive); args != "" {
		if err := answer(args); err != nil {
			fmt.Fprintln(os.Stderr, "the node that answers:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// answer is the other process: for each line it prints its crossings, sleeps and processor time.
func answer(args string) error {
	var at string
	var spin time.Duration
	if _, err := fmt.Sscan(args, &at, (*int64)(&spin)); err != nil {
		return err
	}
	n, err := open(at, netip.MustParseAddr(at), spin)
	if err != nil {
		return err
	}
	if err := n.offer(); err != nil {
		return err
	}
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		c := n.costs()
		fmt.Println(c[0], c[1], c[2])
	}
	return n.close(context.Background())
}

// program is another process, which answers lines.
type program struct {
	in  io.Writer
	out *bufio.Reader
}

func launch(b *testing.B, env string, command ...string) *program {
	b.Helper()
	c := exec.Command(command[0], command[1:]...)
	c.Env, c.Stderr = append(os.Environ(), env), os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	p := &program{in, bufio.NewReader(out)}
	b.Cleanup(func() {
		_ = in.Close()
		if err := c.Wait(); err != nil {
			b.Errorf("%s: %v", command, err)
		}
	})
	if line := p.line(b); line != "ready" {
		b.Fatalf("%s says %q", command, line)
	}
	return p
}

func (p *program) line(b *testing.B) string {
	b.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// numbers sends a line and reads the numbers in the answer.
func (p *program) numbers(b *testing.B, into []float64, format string, args ...any) {
	b.Helper()
	if _, err := fmt.Fprintf(p.in, format+"\n", args...); err != nil {
		b.Fatal(err)
	}
	words := strings.Fields(p.line(b))
	if len(words) != len(into) {
		b.Fatalf("the answer is %q, want %d numbers", words, len(into))
	}
	for k := range into {
		var err error
		if into[k], err = strconv.ParseFloat(words[k], 64); err != nil {
			b.Fatal(err)
		}
	}
}

// cases are the exchanges, and the operations of the simplest program for comparison (floor.c). In those
// with spin, both programs poll for this time before they sleep.
var cases = []struct {
	name  string
	x     exchange
	floor byte
	n     int // exchanges per round
	spin  time.Duration
}{
	{name: "PutAck0x1", x: exchange{window: 1}, floor: 'm', n: 300},
	{name: "PutAck0x64", x: exchange{window: 64}, floor: 'm', n: 2000},
	{name: "Put1Mx8", x: exchange{size: lnet.MTU, window: 8}, floor: 'w', n: 40},
	{name: "Get1Mx8", x: exchange{size: lnet.MTU, window: 8, get: true}, floor: 'r', n: 40},
	{name: "PutAck0x1Polling", x: exchange{window: 1}, floor: 'm', n: 300, spin: 20 * time.Millisecond},
}

// mostCrossings is the maximum number of times that Go is left for a message, if many are in
// progress.
const mostCrossings = 0.5

// couple is two nodes in two processes, and the two processes of the simplest program.
type couple struct {
	near       *party
	far, plain *program
}

// launchCouple starts a couple whose programs poll for the time spin. It uses the first four of the addresses.
func launchCouple(b *testing.B, at []string, port int, spin time.Duration) *couple {
	b.Helper()
	c := new(couple)
	floor := filepath.Join(os.Getenv("LNETD_TEST_PROGRAMS"), "floor")
	us := strconv.Itoa(int(spin.Microseconds()))
	launch(b, "", floor, "serve", us, at[2], strconv.Itoa(port))
	c.plain = launch(b, "", floor, "call", us, at[3], at[2], strconv.Itoa(port))
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	c.far = launch(b, fmt.Sprint(passive, "=", at[1], " ", int64(spin)), self)
	if c.near, err = open(at[0], netip.MustParseAddr(at[1]), spin); err != nil {
		b.Fatal(err)
	}
	return c
}

// costs returns the costs of both nodes so far.
func (c *couple) costs(b *testing.B) (near, far costs) {
	b.Helper()
	c.far.numbers(b, far[:], "")
	return c.near.costs(), far
}

// BenchmarkOnDevices compares PUTs with their ACKs, and GETs, between two nodes in two processes
// with the same exchanges of the simplest program in C. Rounds of both alternate. It reports the
// median of the ratios of their times. For each message it reports how often both processes have
// left Go: an exchange is two messages. For each exchange it reports how often a process has slept, on
// average over both, and its processor time. Memory for bulk is registered. Counted values have limits.
func BenchmarkOnDevices(b *testing.B) {
	at := addresses(b, 8)
	asleep := launchCouple(b, at, port, 0)
	polling := launchCouple(b, at[4:], port+10, cases[len(cases)-1].spin)
	for _, c := range cases {
		b.Run(c.name, func(b *testing.B) {
			between := asleep
			if c.spin > 0 {
				between = polling
			}
			between.compare(b, c.x, c.floor, c.n)
		})
	}
	for _, c := range []*couple{asleep, polling} {
		if err := c.near.close(context.Background()); err != nil {
			b.Error(err)
		}
	}
}

// compare runs rounds of n exchanges x of the nodes, alternating with rounds of the simplest program.
func (c *couple) compare(b *testing.B, x exchange, floor byte, n int) {
	ours := func(n int) time.Duration {
		took, err := c.near.run(b.Context(), x, n)
		if err != nil {
			b.Fatal(err)
		}
		return took
	}
	theirs := func(n int) (took, slept float64) {
		var v [2]float64
		c.plain.numbers(b, v[:], "%c %d %d", floor, n, x.window)
		return v[0], v[1]
	}
	ours(2 * x.window)
	theirs(2 * x.window)
	values := make(map[string][]float64)
	per := float64(n)
	for b.Loop() {
		near0, far0 := c.costs(b)
		var m0, m1 runtime.MemStats
		runtime.ReadMemStats(&m0)
		took := float64(ours(n).Nanoseconds())
		runtime.ReadMemStats(&m1)
		near, far := c.costs(b)
		base, slept := theirs(n)
		for unit, v := range map[string]float64{
			"µs": took / per / 1e3, "µs-floor": base / per / 1e3, "ratio": took / base,
			"crossings/message": (near[0] - near0[0] + far[0] - far0[0]) / (2 * per),
			"sleeps":            (near[1] - near0[1] + far[1] - far0[1]) / (2 * per),
			"sleeps-floor":      slept / per,
			"µs-processor":      (near[2] - near0[2] + far[2] - far0[2]) / (2 * per),
			"allocs/exchange":   float64(m1.Mallocs-m0.Mallocs) / per,
		} {
			values[unit] = append(values[unit], v)
		}
	}
	b.ReportMetric(0, "ns/op") // the time of a round is meaningless
	for unit, v := range values {
		b.ReportMetric(median(v), unit)
	}
	crossed, allocs := median(values["crossings/message"]), median(values["allocs/exchange"])
	if x.window == 64 && (crossed > mostCrossings || allocs >= 1) {
		b.Errorf("%.2f crossings per message, at most %v are wanted; %.2f allocations", crossed, mostCrossings, allocs)
	}
}

func median(v []float64) float64 { return slices.Sorted(slices.Values(v))[len(v)/2] }
