package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
	"github.com/lnetd/lnetd/internal/lnetd/systemd"
	"github.com/lnetd/lnetd/internal/testing/daemontest"
)

// daemonRun is a daemon under test.
type daemonRun struct {
	*Daemon
	socket string
	log    *daemontest.Log
	*fakeSystemd
	cancel context.CancelFunc
	done   chan error
}

// startDaemon runs a daemon with the configuration on a network.
func startDaemon(t *testing.T, n *fakeNetwork, text string) *daemonRun {
	t.Helper()
	drivers := Drivers{TCP(n)}
	c, err := config.Parse("test.yaml", []byte(text), drivers.Options())
	if err != nil {
		t.Fatal(err)
	}
	if c.ControlSocket == "" {
		c.ControlSocket = filepath.Join(t.TempDir(), "c.sock")
	}
	return runDaemon(t, c, drivers, nil)
}

// runDaemon runs a daemon after change was called for it.
func runDaemon(t *testing.T, c config.Config, drivers Drivers, change func(*Daemon)) *daemonRun {
	t.Helper()
	return runUnder(t, newFakeSystemd(t), systemd.Config{}, c, drivers, change)
}

// runUnder is runDaemon under the service manager f, which m configures further.
func runUnder(t *testing.T, f *fakeSystemd, m systemd.Config, c config.Config, drivers Drivers, change func(*Daemon)) *daemonRun {
	t.Helper()
	r := &daemonRun{socket: c.ControlSocket, log: &daemontest.Log{}, fakeSystemd: f, done: make(chan error, 1)}
	r.Daemon = New(c, drivers, NewLogger(r.log, slog.LevelInfo, config.FormatJSON))
	m.Send, m.Logger = f.send, r.Daemon.log
	r.systemd = systemd.New(m)
	r.sysfs = fstest.MapFS{}
	if change != nil {
		change(r.Daemon)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go func() { r.done <- r.Run(ctx) }()
	t.Cleanup(cancel)
	return r
}

// ready waits until the daemon reports that it is ready.
func (r *daemonRun) ready(t *testing.T) *client.Client {
	t.Helper()
	select {
	case s := <-r.states:
		if s != "READY=1" {
			t.Fatalf("systemd hears %q first; Run: %v", s, <-r.done)
		}
	case err := <-r.done:
		t.Fatalf("Run: %v", err)
	}
	c := client.New(r.socket)
	t.Cleanup(c.Close)
	return c
}

// stop ends the daemon and checks that it ends without an error.
func (r *daemonRun) stop(t *testing.T) {
	t.Helper()
	r.cancel()
	if err := <-r.done; err != nil {
		t.Errorf("Run: %v", err)
	}
	if s := <-r.states; s != "STOPPING=1\nEXTEND_TIMEOUT_USEC=47000000" {
		t.Errorf("systemd hears %q last", s)
	}
}

// fault waits for the daemon's end and returns its fault.
func (r *daemonRun) fault(t *testing.T, code api.Code) *api.Fault {
	t.Helper()
	err := <-r.done
	var f *api.Fault
	if !errors.As(err, &f) || f.Code != code {
		t.Fatalf("Run: %v, want code %s", err, code)
	}
	if f.Remedy == "" || f.Cause == "" {
		t.Errorf("cause or remedy is missing: %+v", f)
	}
	return f
}

var lo = device("lo", "127.0.0.1/8")

func TestDaemon(t *testing.T) {
	r := startDaemon(t, host(lo, device("eth0", "192.0.2.5/24")), "lnetd: {metrics_addr: '127.0.0.1:0'}")
	c := r.ready(t)

	v, err := c.Version(t.Context())
	if err != nil || v.Program != "lnetd" || v.PID != os.Getpid() || v.Started.IsZero() {
		t.Errorf("version %+v, %v", v, err)
	}
	nets, err := c.Nets(t.Context(), "")
	if err != nil || len(nets) != 2 {
		t.Fatalf("nets %+v, %v", nets, err)
	}
	lo := nets[0].NIs[0]
	if lo.NID.String() != "0@lo" || lo.Status != "up" || lo.Health.Value != 0 || lo.LND != nil || lo.Interfaces != nil {
		t.Errorf("lo: %+v", lo)
	}
	eth := nets[1].NIs[0]
	if eth.NID.String() != "192.0.2.5@tcp" || eth.Status != "up" || eth.CPT != "[0]" || eth.DevCPT != -1 ||
		eth.UDSP.NetPriority != -1 || eth.UDSP.NIDPriority != -1 || eth.Health.Value != 1000 {
		t.Errorf("tcp: %+v", eth)
	}
	if diff := cmp.Diff([]string{"eth0"}, eth.Interfaces); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(api.Tunables{PeerTimeout: 180, PeerCredits: 8, Credits: 256}, eth.Tunables); diff != "" {
		t.Error(diff)
	}
	wantLND := []api.Tunable{{Name: "conns_per_peer", Value: 1}, {Name: "timeout", Value: 50}, {Name: "tos", Value: -1}}
	if diff := cmp.Diff(wantLND, eth.LND); diff != "" {
		t.Error(diff)
	}

	pings, err := c.Ping(t.Context(), api.PingRequest{
		NIDs: []string{"0@lo", "192.0.2.6@tcp", "10.0.0.1@tcp5"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if p := pings[0]; p.Error != nil || p.Primary.String() != "0@lo" || len(p.NIDs) != 1 || p.NIDs[0] != eth.NID || p.PID != 12345 {
		t.Errorf("ping 0@lo: %+v", p)
	}
	for _, p := range pings[1:] {
		if p.Error == nil || p.Error.Errno != -113 || p.Error.Text != "failed to ping "+p.Target+": No route to host" {
			t.Errorf("ping %s: %+v", p.Target, p.Error)
		}
	}
	pings, err = c.Ping(t.Context(), api.PingRequest{NIDs: []string{"192.0.2.6@tcp"}, Source: "192.0.2.9@tcp"})
	if err != nil || pings[0].Error == nil || pings[0].Error.Errno != -22 {
		t.Errorf("ping from elsewhere: %+v, %v", pings, err)
	}

	r.stop(t)
	if _, err := os.Stat(r.socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket stays: %v", err)
	}
	if log := r.log.String(); !strings.Contains(log, "using the first usable interface") {
		t.Errorf("the log does not say how the net was chosen:\n%s", log)
	}
}

func TestMetricsAreServed(t *testing.T) {
	r := startDaemon(t, host(lo), "lnetd: {metrics_addr: '127.0.0.1:0'}")
	r.ready(t)
	_, rest, _ := strings.Cut(r.log.String(), `"msg":"serving metrics","address":"`)
	addr, _, _ := strings.Cut(rest, `"`)
	resp, err := http.Get("http://" + addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || !strings.Contains(string(body), `lnet_ni_up{device="lo",net="tcp",nid="127.0.0.1@tcp"} 1`) {
		t.Errorf("%v\n%s", err, body)
	}
	r.stop(t)
}

func TestLoopbackIsTheLastResort(t *testing.T) {
	r := startDaemon(t, host(lo), "")
	nets, err := r.ready(t).Nets(t.Context(), "tcp")
	if err != nil || nets[0].NIs[0].NID.String() != "127.0.0.1@tcp" {
		t.Errorf("%+v, %v", nets, err)
	}
	r.stop(t)
	if log := r.log.String(); !strings.Contains(log, "using the loopback interface") {
		t.Errorf("the log does not say so:\n%s", log)
	}
}

// Without the right to listen on 988, another port is used, and the log explains the
// consequences.
func TestPortIsForbidden(t *testing.T) {
	n := host(device("eth0", "192.0.2.5/24"))
	n.forbidden = func(at netip.AddrPort) bool { return at.Port() < 1024 }
	r := startDaemon(t, n, "")
	r.ready(t)
	r.stop(t)
	log := r.log.String()
	for _, want := range []string{
		`no permission to listen on port 988; listening on another port","port":9988,"accept":"all"`,
		"kernel nodes cannot connect to this node, because they only connect to port 988",
		"set connect_port to 988 to reach those with accept=all",
		"CAP_NET_BIND_SERVICE",
		`"port":9988,"accept":"all"`,
	} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %q:\n%s", want, log)
		}
	}
}

func TestChosenPortIsForbidden(t *testing.T) {
	n := host(device("eth0", "192.0.2.5/24"))
	n.forbidden = func(at netip.AddrPort) bool { return at.Port() < 1024 }
	r := startDaemon(t, n, "lnetd: {port: 988}")
	if f := r.fault(t, api.CodePortForbidden); !strings.Contains(f.Text, "192.0.2.5:988") {
		t.Errorf("%+v", f)
	}
}

func TestPortIsInUse(t *testing.T) {
	n := host(device("eth0", "192.0.2.5/24"))
	n.taken = func(netip.AddrPort) bool { return true }
	r := startDaemon(t, n, "")
	if f := r.fault(t, api.CodePortInUse); !strings.Contains(f.Text, "192.0.2.5:988") || f.Errno != -int(syscall.EADDRINUSE) {
		t.Errorf("%+v", f)
	}
}

func TestNIThatStandsTwice(t *testing.T) {
	r := startDaemon(t, host(device("eth0", "192.0.2.5/24")), "net: [{net: tcp, interfaces: [eth0]}, {net: tcp, nid: 192.0.2.5@tcp}]")
	f := r.fault(t, api.CodeConfigInvalid)
	if f.Cause != "test.yaml:1: net[1]: NI 192.0.2.5@tcp cannot be brought up: the NI tcp(eth0) already exists, with the NID 192.0.2.5@tcp; "+
		"a net can have each interface and each NID only once: remove one of the two, or use another net for one of them" {
		t.Errorf("%+v", f)
	}
}

func TestSecondDaemonOnTheSocket(t *testing.T) {
	first := startDaemon(t, host(lo), "")
	first.ready(t)
	second := startDaemon(t, host(lo), "lnetd: {control_socket: "+first.socket+"}")
	f := second.fault(t, api.CodeSocketInUse)
	if !strings.Contains(f.Cause, "lnetd "+api.BuildVersion()) {
		t.Errorf("the owner is not named: %s", f.Cause)
	}
	first.stop(t)
}

func TestMetricsAddressInUse(t *testing.T) {
	first := startDaemon(t, host(lo), "lnetd: {metrics_addr: '127.0.0.1:0'}")
	first.ready(t)
	_, rest, _ := strings.Cut(first.log.String(), `"msg":"serving metrics","address":"`)
	addr, _, _ := strings.Cut(rest, `"`)
	second := startDaemon(t, host(lo), "lnetd: {metrics_addr: '"+addr+"'}")
	f := second.fault(t, api.CodePortInUse)
	if !strings.Contains(f.Text, addr) {
		t.Errorf("%+v", f)
	}
	first.stop(t)
}

func TestWarningsAreLogged(t *testing.T) {
	r := startDaemon(t, host(lo), "buffers: {huge: 1}")
	r.ready(t)
	r.stop(t)
	if !strings.Contains(r.log.String(), "test.yaml:1:11: buffers.huge: Ignoring unrecognized key 'huge' for 'buffers'") {
		t.Error(r.log.String())
	}
}
