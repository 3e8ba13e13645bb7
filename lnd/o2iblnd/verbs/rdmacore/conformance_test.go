//go:build o2ib && cgo

// These tests need devices, such as .ci/guest has in software:
//
//	go test -tags o2ib -exec $PWD/.ci/guest -run OnDevices ./lnd/o2iblnd/verbs/rdmacore
//
// With -asan -ldflags=-extldflags=-static-libasan the shim runs under AddressSanitizer.

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

// Environment variable with the machine's addresses on RDMA devices, two or more. Tests that need them
// are skipped without it. They may be on one device.
const addresses = "LNETD_TEST_RDMA"

// Environment variable with a device that a test may remove: its address, its network device, its name.
const spare = "LNETD_TEST_RDMA_SPARE"

// Environment variable with which a test starts itself as a victim: an address and a Service.
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

func TestConformanceOnDevices(t *testing.T) {
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

// ports are those of the worlds, so that a failed world does not block the next.
var ports uint16 = 18500

func world(t *testing.T, a, b netip.Addr) *verbstest.World {
	before := rdmacore.Live()
	ports += 20
	w := &verbstest.World{
		A: open(t), B: open(t), AddrA: a, AddrB: b, Port: ports,
		Foreign: netip.MustParseAddr("192.0.2.1"), Plain: netip.MustParseAddr("127.0.0.1"),
	}
	last := a.As4()
	last[3] = 253 // tests use this network exclusively
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
		_ = c.Process.Kill()
		_ = c.Wait()
	}
	t.Cleanup(kill)
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("the victim said %q: %v", line, err)
	}
	return kill
}

// TestEventsOnDevices: ports go down and devices are removed. The driver can close everything that it has
// on them.
func TestEventsOnDevices(t *testing.T) {
	var addr, netdev, link string
	if _, err := fmt.Sscan(os.Getenv(spare), &addr, &netdev, &link); err != nil {
		t.Skipf("needs an RDMA device that may go: %s='ADDRESS NETDEV LINK'", spare)
	}
	p := open(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	run := func(words ...string) *exec.Cmd {
		c := exec.Command(words[0], words[1:]...)
		c.Stderr = os.Stderr
		must(c.Start())
		return c
	}
	ch, err := p.OpenChannel()
	must(err)
	l, err := ch.Listen(netip.AddrPortFrom(netip.MustParseAddr(addr), 18499), 1)
	must(err)
	d, port, err := l.Device()
	must(err)
	m, err := d.Alloc(1<<20, false, verbs.AccessLocalWrite)
	must(err)
	q, err := d.NewCQ(16, 0)
	must(err)
	async := func(want verbs.AsyncKind) {
		t.Helper()
		var ev [1]verbs.AsyncEvent
		for ev[0].Kind != want {
			_, err := d.Events(ev[:])
			must(err)
			t.Logf("%+v", ev[0])
		}
	}
	must(run("ip", "link", "set", netdev, "down").Wait())
	async(verbs.AsyncPortError)
	state, err := d.Port(port)
	must(err)
	if state.State == verbs.PortActive {
		t.Errorf("the port is %+v", state)
	}
	must(run("ip", "link", "set", netdev, "up").Wait())
	async(verbs.AsyncPortActive)

	removal := run("rdma", "link", "delete", link)
	var ev [1]verbs.Event
	for ev[0].Kind != verbs.EventDeviceRemoval {
		_, err := ch.Events(ev[:])
		must(err)
		t.Log(ev[0].Kind, ev[0].ID == l)
	}
	l.Destroy()
	for _, end := range []func() error{q.Close, m.Close, d.Close, ch.Close, p.Close} {
		if err := end(); err != nil {
			t.Error(err)
		}
	}
	_ = removal // ends with the process, if the device waits for all that have it open
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
