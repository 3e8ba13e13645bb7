package hosting

import (
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// Parts of the long form of TestHostile.
const (
	hostileTime = 10 * time.Minute // beside hostile clients
	burnTime    = 3 * time.Second  // beside processes without lnetd, each time
)

// Clients violate the protocol in every way that we know. lnetd continues, cuts them off with a
// reason in words, and holds none of their resources at the end. Two other clients that talk to
// each other only notice that the machine is busy. The long form compares their round-trip times:
// alone, beside hostile clients, and beside processes that use as much processor time without
// lnetd.
//
// transport 9.1, 9.3, 9.9 (1)-(3), 9.9 (7), 9.9 (9)-(10)
// transport-tests P (117)-(118)
func TestHostile(t *testing.T) {
	each := 200 * time.Millisecond
	if *long {
		each = hostileTime / time.Duration(len(hostileKinds))
	}
	d := launch(t, settings{host: 1, requests: 10_000})
	echo := enter(t, order{Role: "echo", Socket: d.socket, At: d.nid + ":12345:34:1"})
	ping := enter(t, order{Role: "ping", Socket: d.socket, At: d.nid + ":12345:34:2", To: d.nid + ":12345:34:1"})
	x := &hostileTest{t: t, d: d, ping: ping}
	before := d.figures()
	x.measure("nobody else", min(each, burnTime))
	for _, kind := range slices.Sorted(maps.Keys(hostileKinds)) {
		if !*long {
			x.beside(kind, 1, each)
			continue
		}
		// The other load of the machine changes, so measure one directly after the other.
		median, burnt := x.beside(kind, 1, each), x.beside("burn", 2, burnTime)
		verdict := ""
		if median > 2*burnt {
			verdict = ": MORE THAN TWICE"
		}
		t.Logf("%s: %.2f times what a round trip takes beside two who burn%s", kind, median/burnt, verdict)
	}
	within(t, patience, "who did harm is gone", func() bool { return len(d.pids()) == 2 })
	d.wantUnchanged(before)
	var e echoReport
	echo.AskInto("report", "report", &e)
	if e.Troubles > 0 {
		t.Errorf("the echo has seen of it: %+v", e)
	}
	ping.Leave()
	echo.Leave()
	d.wantHealthy()
}

// hostileTest is the state of TestHostile.
type hostileTest struct {
	t    *testing.T
	d    *daemon
	ping *guest
}

// measure lets the ping run for a time, or longer until one answer, and returns the median round trip
// in µs.
func (x *hostileTest) measure(beside string, length time.Duration) float64 {
	x.t.Helper()
	var p pingReport
	x.ping.AskInto("report", "report", &p)
	for p.N = 0; p.N == 0; {
		time.Sleep(length)
		x.ping.AskInto("report", "report", &p)
	}
	x.t.Logf("beside %s: %v", beside, &p)
	if p.Lost > 0 || p.Troubles > 0 {
		x.t.Errorf("beside %s: %v", beside, &p)
	}
	return p.Median
}

// beside measures beside n hostile clients of a kind, for a time.
func (x *hostileTest) beside(kind string, n int, length time.Duration) float64 {
	x.t.Helper()
	var all []*guest
	for i := range n {
		all = append(all, enter(x.t, order{
			Role: "hostile", Kind: kind, Seed: uint64(i), Socket: x.d.socket, At: x.d.nid + ":12345:38:*",
		}))
	}
	used := processorTime(x.t, x.d.cmd.Process.Pid)
	median := x.measure(kind, length)
	used = processorTime(x.t, x.d.cmd.Process.Pid) - used
	for _, g := range all {
		var did struct {
			Rounds  int
			Reasons map[string]int
		}
		mine := processorTime(x.t, g.PID())
		if err := g.Stdin.Close(); err != nil && !errors.Is(err, io.EOF) {
			x.t.Error(err)
		}
		g.ExpectInto("did", &did)
		g.Leave()
		x.t.Logf("   %d rounds in %v of its own and %v of lnetd's processor time; cut off: %v", did.Rounds, mine, used, did.Reasons)
		for reason := range did.Reasons {
			if strings.TrimSpace(reason) == "" {
				x.t.Errorf("%s was cut off for no reason", kind)
			}
		}
	}
	return median
}
