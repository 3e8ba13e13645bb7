//go:build o2ib && cgo

package rdmacore_test

import (
	"bufio"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/rdmacore"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/verbstest"
)

// The machine's two addresses on RDMA devices, separated by a comma; tests that need them
// are skipped without. They may be on one device.
const addresses = "LNETD_TEST_RDMA"

// How a test starts itself as a victim: an address and a Service.
const victim = "LNETD_TEST_RDMA_VICTIM"

func TestMain(m *testing.M) {
	if at := os.Getenv(victim); at != "" {
		var addr string
		var s verbstest.Service
		if _, err := fmt.Sscan(at, &addr, &s); err != nil {
			panic(err)
		}
		p, err := rdmacore.Open()
		if err == nil {
			err = verbstest.Serve(p, netip.MustParseAddrPort(addr), s, func() { fmt.Println("ready") })
		}
		fmt.Fprintln(os.Stderr, "the victim ended:", err)
		os.Exit(1)
	}
	status := m.Run()
	if n := rdmacore.Live(); n != 0 && status == 0 {
		fmt.Println("objects left:", n)
		status = 1
	}
	os.Exit(status)
}

func TestConformance(t *testing.T) {
	a, b := needDevices(t)
	verbstest.Run(t, verbstest.Harness{
		New:      func(t *testing.T) *verbstest.World { return world(t, a, b) },
		Bubble:   func(t *testing.T, f func(*testing.T)) { f(t) },
		Patience: 2 * time.Minute,
	})
}

func needDevices(t testing.TB) (a, b netip.Addr) {
	t.Helper()
	var x, y string
	if _, err := fmt.Sscan(os.Getenv(addresses), &x, &y); err != nil {
		t.Skipf("needs RDMA devices: %s='ADDRESS ADDRESS'", addresses)
	}
	return netip.MustParseAddr(x), netip.MustParseAddr(y)
}

func open(t testing.TB) verbs.Provider {
	t.Helper()
	p, err := rdmacore.Open()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// ports are those of the worlds, so that one that has failed is in nobody's way.
var ports uint16 = 18500

func world(t *testing.T, a, b netip.Addr) *verbstest.World {
	before := rdmacore.Live()
	ports += 20
	w := &verbstest.World{
		A: open(t), B: open(t), AddrA: a, AddrB: b, Port: ports,
		Foreign: netip.MustParseAddr("192.0.2.1"), Plain: netip.MustParseAddr("127.0.0.1"),
	}
	last := a.As4()
	last[3] = 253 // of a network that tests have for themselves
	w.Nobody = netip.AddrFrom4(last)
	w.Victim = startVictim
	w.Close = func(t *testing.T) {
		if n := rdmacore.Live() - before; n != 0 && !t.Failed() {
			t.Errorf("%d objects are left", n)
		}
	}
	return w
}

func startVictim(t *testing.T, at netip.AddrPort, s verbstest.Service) (kill func()) {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d", victim, at, s))
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	kill = func() {
		c.Process.Kill()
		c.Wait()
	}
	t.Cleanup(kill)
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("the victim said %q: %v", line, err)
	}
	return kill
}

// BenchmarkShim is run in both ways of waiting.
func BenchmarkShim(b *testing.B) {
	x, y := needDevices(b)
	for name, spin := range map[string]time.Duration{"Sleep": 0, "Spin50us": 50 * time.Microsecond} {
		b.Run(name, func(b *testing.B) {
			ports += 20
			verbstest.Bench(b, &verbstest.World{A: open(b), B: open(b), AddrA: x, AddrB: y, Port: ports}, spin)
		})
	}
}
