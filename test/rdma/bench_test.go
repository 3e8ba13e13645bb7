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

// BenchmarkOnDevices starts this program again as the passive node. The variable has its address.
const passive = "LNETD_TEST_RDMA_PASSIVE"

func TestMain(m *testing.M) {
	if at := os.Getenv(passive); at != "" {
		if err := answer(at); err != nil {
			fmt.Fprintln(os.Stderr, "the node that answers:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// answer is the other process: for each line it prints its crossings.
func answer(at string) error {
	n, err := open(at, netip.MustParseAddr(at))
	if err != nil {
		return err
	}
	if err := n.offer(); err != nil {
		return err
	}
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Println(n.crossings())
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

// number sends a line and reads the number in the answer.
func (p *program) number(b *testing.B, format string, args ...any) float64 {
	b.Helper()
	if _, err := fmt.Fprintf(p.in, format+"\n", args...); err != nil {
		b.Fatal(err)
	}
	line := p.line(b)
	n, err := strconv.ParseFloat(line, 64)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// cases are the exchanges, and the operations of the simplest program for comparison (floor.c).
var cases = []struct {
	name  string
	x     exchange
	floor byte
	n     int // exchanges per round
}{
	{name: "PutAck0x1", x: exchange{window: 1}, floor: 'm', n: 300},
	{name: "PutAck0x64", x: exchange{window: 64}, floor: 'm', n: 2000},
	{name: "Put1Mx8", x: exchange{size: lnet.MTU, window: 8}, floor: 'w', n: 40},
	{name: "Get1Mx8", x: exchange{size: lnet.MTU, window: 8, get: true}, floor: 'r', n: 40},
}

// mostCrossings is the maximum number of times that Go is left for a message, if many are in
// progress.
const mostCrossings = 0.5

// BenchmarkOnDevices compares PUTs with their ACKs, and GETs, between two nodes in two processes
// with the same exchanges of the simplest program in C. Rounds of both alternate. It reports the
// median of the ratios of their times. For each message it reports how often both processes have
// left Go: an exchange is two messages. Memory for bulk is registered. Counted values have limits.
func BenchmarkOnDevices(b *testing.B) {
	at := addresses(b, 4)
	floor := filepath.Join(os.Getenv("LNETD_TEST_PROGRAMS"), "floor")
	launch(b, "", floor, "serve", at[2], strconv.Itoa(port))
	plain := launch(b, "", floor, "call", at[3], at[2], strconv.Itoa(port))
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	far := launch(b, passive+"="+at[1], self)
	near, err := open(at[0], netip.MustParseAddr(at[1]))
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range cases {
		b.Run(c.name, func(b *testing.B) {
			ours := func(n int) time.Duration {
				took, err := near.run(b.Context(), c.x, n)
				if err != nil {
					b.Fatal(err)
				}
				return took
			}
			theirs := func(n int) time.Duration {
				return time.Duration(plain.number(b, "%c %d %d", c.floor, n, c.x.window))
			}
			ours(2 * c.x.window)
			theirs(2 * c.x.window)
			var took, base, ratios, crossed, allocs []float64
			for b.Loop() {
				before := near.crossings() + uint64(far.number(b, ""))
				var m0, m1 runtime.MemStats
				runtime.ReadMemStats(&m0)
				t := float64(ours(c.n).Nanoseconds()) / float64(c.n)
				runtime.ReadMemStats(&m1)
				after := near.crossings() + uint64(far.number(b, ""))
				f := float64(theirs(c.n).Nanoseconds()) / float64(c.n)
				took, base, ratios = append(took, t), append(base, f), append(ratios, t/f)
				crossed = append(crossed, float64(after-before)/float64(2*c.n))
				allocs = append(allocs, float64(m1.Mallocs-m0.Mallocs)/float64(c.n))
			}
			b.ReportMetric(0, "ns/op") // the time of a round is meaningless
			b.ReportMetric(median(took)/1e3, "µs")
			b.ReportMetric(median(base)/1e3, "µs-floor")
			b.ReportMetric(median(ratios), "ratio")
			b.ReportMetric(median(crossed), "crossings/message")
			b.ReportMetric(median(allocs), "allocs/exchange")
			if c.x.window == 64 && (median(crossed) > mostCrossings || median(allocs) >= 1) {
				b.Errorf("%.2f crossings per message, at most %v are wanted; %.2f allocations", median(crossed), mostCrossings, median(allocs))
			}
		})
	}
	if err := near.close(context.Background()); err != nil {
		b.Error(err)
	}
}

func median(v []float64) float64 { return slices.Sorted(slices.Values(v))[len(v)/2] }
