package netns

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/examples/udplnd"
	"github.com/lnetd/lnetd/internal/lnetd/diagnosis"
	"github.com/lnetd/lnetd/internal/testing/daemontest"
	"github.com/lnetd/lnetd/internal/testing/namespace"
	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selection"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/remote"
)

// faultyInterfaces is a pair, of which the interface of one node breaks.
func faultyInterfaces(t *testing.T, r *record) {
	a, b := pair(t)
	one, other := a.startWith(t, &configuration{}), b.startWith(t, &configuration{})
	ip := func(args ...string) { t.Helper(); namespace.IP(t, append([]string{"-n", a.name}, args...)...) }
	a.wantFindings(t, "a healthy pair", nil)
	toB := []string{b.nid()}
	r.suffer(t, a,
		planted{
			name: "an interface is switched off", code: diagnosis.InterfaceOff, evidence: "eth0 is switched off",
			plant: func() { ip("link", "set", "eth0", "down") }, mend: func() { ip("link", "set", "eth0", "up") },
		},
		planted{
			name: "no NI is up", code: diagnosis.NoNIUp, evidence: "1 NIs are down",
			plant: func() { ip("link", "set", "eth0", "down") }, mend: func() { ip("link", "set", "eth0", "up") },
		},
		planted{
			name: "a cable is pulled", code: diagnosis.NoCarrier, evidence: "eth0 has no carrier",
			plant: func() { pull(t, 0, a) }, mend: func() { plug(t, 0, a) },
		},
		planted{
			name: "an address is lost", code: diagnosis.AddressMissing, evidence: "eth0 does not have the address " + a.addr(0),
			plant: func() { ip("addr", "del", a.addr(0)+"/24", "dev", "eth0") },
			mend:  func() { ip("addr", "add", a.addr(0)+"/24", "dev", "eth0") },
		},
		planted{
			name: "two interfaces have an address", code: diagnosis.AddressTwice, evidence: "eth0 and lo both have " + a.addr(0),
			plant: func() { ip("addr", "add", a.addr(0)+"/32", "dev", "lo") },
			mend:  func() { ip("addr", "del", a.addr(0)+"/32", "dev", "lo") },
		},
		planted{
			name: "a router on one net", code: diagnosis.RouterOneNet, evidence: "all NIs are on one net", healed: toB,
			plant: func() { one.Must(t, "set", "routing", "1") }, mend: func() { one.Must(t, "set", "routing", "0") },
		},
	)
	other.Stop(t)
	one.Stop(t)
}

// faultyWaiting is a node whose second NI is on an interface that does not exist. It appears step by step. Then it is a
// node whose interface has another name than in the configuration.
func faultyWaiting(t *testing.T, r *record) {
	a, _ := pair(t)
	d := a.run(t, nil, nil, nil, program(t, "lnetd"), "--control-socket", a.socket(), "--net", "tcp(eth0),tcp1(eth7)")
	ip := func(args ...string) { t.Helper(); namespace.IP(t, append([]string{"-n", a.name}, args...)...) }
	r.suffer(t, a,
		planted{
			name: "an interface does not exist", code: diagnosis.InterfaceMissing, evidence: "no such network device",
			mend: func() { ip("link", "add", "eth7", "type", "veth", "peer", "name", "eth8") }, rest: []diagnosis.Code{diagnosis.InterfaceOff},
		},
		planted{
			name: "an interface was never switched on", code: diagnosis.InterfaceOff, evidence: "eth7 is switched off",
			mend: func() { ip("link", "set", "eth8", "up"); ip("link", "set", "eth7", "up") }, rest: []diagnosis.Code{diagnosis.AddressMissing},
		},
		planted{
			name: "an interface never had an address", code: diagnosis.AddressMissing, evidence: "eth7 has no address",
			mend: func() { ip("addr", "add", "10.213.77.1/24", "dev", "eth7") },
		},
		planted{
			name: "the timeout of an NI is too long", code: diagnosis.TimeoutLong, evidence: "timeout 50 s, and transaction_timeout 20 s",
			plant: func() { d.Must(t, "set", "transaction_timeout", "20") }, mend: func() { d.Must(t, "set", "transaction_timeout", "150") },
		},
	)
	d.Stop(t)
	rename := func(from, to string) {
		t.Helper()
		ip("link", "set", from, "down")
		ip("link", "set", from, "name", to)
		ip("link", "set", to, "up")
	}
	rename("eth0", "lan0")
	d = a.run(t, nil, nil, nil, program(t, "lnetd"), "--config", a.file(t, "both.yaml", fmt.Sprintf(
		"net: [{net type: tcp, local NI(s): [{nid: %s, interfaces: {0: eth0}}]}]\nlnetd: {control_socket: %s}\n", a.nid(), a.socket())))
	r.suffer(t, a, planted{
		name: "an interface is renamed", code: diagnosis.InterfaceRenamed, evidence: "there is no eth0, and lan0 has the address " + a.addr(0),
		mend: func() { rename("lan0", "eth0") },
	})
	d.Stop(t)
	d = a.run(t, nil, nil, nil, program(t, "lnetd"), "--control-socket", a.socket(), "--net", "tcp9(lo)")
	r.suffer(t, a, planted{
		name: "all NIs are on the loopback interface", code: diagnosis.OnlyLoopback, evidence: "1 of 1 NIs",
		mend: func() { d.Must(t, "net", "add", "--net", "tcp", "--if", "eth0") },
	})
	d.Stop(t)
}

// faultyStart is a host on which lnetd is not running, or cannot be reached.
func faultyStart(t *testing.T, r *record) {
	a, _ := pair(t)
	testenv.NeedCommand(t, "setpriv", "util-linux")
	const nobody = "65534"
	asNobody := []string{"setpriv", "--reuid", nobody, "--regid", nobody, "--clear-groups"}
	down := []diagnosis.Code{diagnosis.NotRunning}
	config := a.write(t, &configuration{})
	with := func(name, text string) []string { return []string{"--config", a.file(t, name, text)} }
	var undo func()
	var d *daemon
	r.suffer(t, a,
		planted{
			name: "another process has the port", code: diagnosis.PortInUse, evidence: "it belongs to pid", rest: down,
			plant: func() {
				l := a.listen(t, a.addr(0)+":988")
				undo = func() { _ = l.Close() }
			}, mend: func() { undo() },
		},
		planted{
			name: "no permission for port 988", wrapper: asNobody, code: diagnosis.PortFallback, rest: down,
			evidence: "no permission to listen on " + a.addr(0) + ":988",
		},
		planted{
			name: "no permission for the configured port", wrapper: asNobody, code: diagnosis.PortForbidden, rest: down,
			args: with("port.yaml", "lnetd: {port: 988}\n"), evidence: "no permission to listen on",
		},
		planted{
			name: "a configuration with an error", code: diagnosis.ConfigRejected, rest: down,
			args: with("error.yaml", "nett: []\n"), evidence: "line 1: nett: invalid key 'nett'", healed: []string{"--config", config},
		},
		planted{
			name: "a driver is not built in", code: diagnosis.DriverAbsent, rest: down, healed: []string{"--config", config},
			args: with("o2ib.yaml", "net: [{net type: o2ib, local NI(s): [{interfaces: {0: ib0}}]}]\n"), evidence: "no driver for o2ib nets",
		},
		planted{
			name: "lnetd is not running", code: diagnosis.NotRunning, evidence: "cannot reach lnetd",
			mend: func() { d = a.startWith(t, &configuration{}) },
		},
		planted{
			name: "no access to the control socket", wrapper: asNobody, code: diagnosis.NoAccess, evidence: "Permission denied",
		},
		planted{
			name: "lnetd is stopped", code: diagnosis.NoAnswer,
			plant: func() { deliver(t, d, syscall.SIGSTOP) }, mend: func() { deliver(t, d, syscall.SIGCONT) },
		},
		planted{
			name: "LNet is not configured", code: diagnosis.Unconfigured, evidence: "the network is down",
			plant: func() { d.Must(t, "lnet", "unconfigure") }, mend: func() { d.Must(t, "lnet", "configure", "--all") },
		},
	)
	d.Stop(t)
}

func deliver(t *testing.T, d *daemon, s syscall.Signal) {
	t.Helper()
	if err := d.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// faultyRouter is a router with few buffers between a client and a server behind a slow link.
func faultyRouter(t *testing.T, r *record) {
	w := newWorld(t, 2)
	gateway, left, right := w.host(t, 0, 1), w.host(t, 0), w.host(t, 1)
	router := gateway.startWith(t, &configuration{router: true, patient: true})
	client := left.startLoaded(t, &configuration{patient: true, routes: []route{{to: 1, on: 0, gateway: gateway, hops: 1}}})
	server := right.startLoaded(t, &configuration{patient: true, routes: []route{{to: 0, on: 1, gateway: gateway, hops: 1}}})
	for _, p := range []*loadedDaemon{client, server} {
		p.wantRoutes(t, announced+lateness, 1)
	}
	router.Must(t, "set", "large_buffers", "2")
	var l *load
	var undo func()
	press := func(window int) {
		undo = right.firewall(t, "limit rate over 8 mbytes/second drop")
		l = client.begin(t, server, Plan{Sizes: []int{mebibyte}, Rate: 1000, Window: window})
	}
	relieve := func() {
		undo()
		l.end(t)
	}
	r.suffer(t, gateway, planted{
		name: "router buffers are exhausted", code: diagnosis.BuffersExhausted, evidence: "messages wait; there are 2 buffers", mend: relieve,
		plant: func() { press(64) },
	})
	r.suffer(t, left, planted{
		name: "credits of a peer are exhausted", code: diagnosis.CreditsExhausted, evidence: "messages wait; it has 8 credits", mend: relieve,
		plant: func() { press(192) }, // TCP has room for many of them
	})
	for _, d := range []*daemon{client.daemon, server.daemon, router} {
		d.Stop(t)
	}
}

// faultyLimits is a node whose disk is full, or whose file descriptors run out.
func faultyLimits(t *testing.T, r *record) {
	a, _ := pair(t)
	if err := unix.Mount("none", a.dir, "tmpfs", 0, "size=4m,mode=755"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(a.dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	d := a.startWith(t, &configuration{})
	ballast := filepath.Join(a.dir, "ballast")
	var before unix.Rlimit
	limit := func(to *unix.Rlimit, old *unix.Rlimit) {
		t.Helper()
		if err := unix.Prlimit(d.PID(), unix.RLIMIT_NOFILE, to, old); err != nil {
			t.Fatal(err)
		}
	}
	r.suffer(t, a,
		planted{
			name: "a full disk", code: diagnosis.DiskFull, evidence: "bytes are free in the file system of " + a.dir,
			plant: func() {
				const most = 4 << 20
				_ = os.WriteFile(ballast, make([]byte, most), 0o600) // it fails when the disk is full
			},
			mend: func() {
				if err := os.Remove(ballast); err != nil {
					t.Error(err)
				}
			},
		},
		planted{
			name: "few file descriptors", code: diagnosis.FewDescriptors, evidence: "file descriptors are open",
			plant: func() {
				open, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(d.PID()), "fd"))
				if err != nil {
					t.Fatal(err)
				}
				limit(nil, &before)
				limit(&unix.Rlimit{Cur: uint64(len(open)) + 2, Max: before.Max}, nil)
			},
			mend: func() { limit(&before, nil) },
		},
	)
	d.Stop(t)
}

// Wedge blocks the node's goroutine of discovery, as a bug would, until Unwedge is called.
func (l *Loads) Wedge(int, *int) error {
	released := make(chan struct{})
	l.wedged = released
	go func() {
		// The error makes the call change nothing.
		_ = l.node.Admin().ChangePolicies(context.Background(), func(*selection.Policies) error { <-released; return node.ErrInvalid })
	}()
	return nil
}

// Unwedge ends Wedge.
func (l *Loads) Unwedge(int, *int) error {
	close(l.wedged)
	return nil
}

// faultyNode is a node that is stuck.
func faultyNode(t *testing.T, r *record) {
	a, _ := pair(t)
	p := a.startLoaded(t, &configuration{}, "WATCHDOG_USEC=4000000") // so that it finds out soon
	var none int
	r.suffer(t, a, planted{
		name: "the node is stuck", code: diagnosis.NodeStuck, evidence: "no progress in: discoverer",
		plant: func() {
			p.call(t, "Wedge", 0, &none)
			daemontest.Within(t, noticePatience, "lnetd finds out", func() error {
				if !strings.Contains(p.Log.String(), "the node is stuck") {
					return errors.New(p.Log.String())
				}
				return nil
			})
		},
		mend: func() { p.call(t, "Unwedge", 0, &none) },
	})
	p.Stop(t)
}

// faultyProxies is a node with an NI that a proxy serves.
func faultyProxies(t *testing.T, r *record) {
	a, _ := pair(t)
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", filepath.Join(programsDir(t), "udpproxy"), "github.com/lnetd/lnetd/examples/udpproxy")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	text := fmt.Sprintf("net:\n- {net type: tcp, local NI(s): [{interfaces: {0: eth0}}]}\n- {net type: udp, nid: %s@udp}\n"+
		"lnetd: {control_socket: %s, proxies: {net_types: [{name: udp, number: %d}]}}\n", a.addr(0), a.socket(), udplnd.Type)
	d := a.run(t, nil, nil, nil, program(t, "lnetd"), "--config", a.file(t, "proxies.yaml", text))
	var proxy *exec.Cmd
	begin := func() {
		proxy = exec.Command("ip", "netns", "exec", a.name, program(t, "udpproxy"),
			"-socket", filepath.Join(a.dir, "proxies.sock"), "-address", a.addr(0))
		proxy.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := proxy.Start(); err != nil {
			t.Fatal(err)
		}
	}
	kill := func() {
		_ = proxy.Process.Kill()
		_ = proxy.Wait() // it was killed
	}
	r.suffer(t, a,
		planted{name: "a proxy was not started", code: diagnosis.NoProxy, evidence: "proxy", mend: begin},
		planted{name: "a proxy is dead", code: diagnosis.NoProxy, evidence: "proxy", plant: kill, mend: begin},
	)
	kill()
	d.Stop(t)
}

// guestEnv makes the test binary run as a client of lnetd that receives messages. Its value is the path of lnetd's
// socket.
const guestEnv = "LNETD_NETNS_GUEST"

// Addresses of the client and of the sender of its messages.
const (
	guestAddress  = "0@lo:12345:40:1"
	senderAddress = "0@lo:12345:40:2"
)

// guestRing is the number of completions for which the client's ring has room.
const guestRing = 16

// serveGuest runs the client until standard input ends.
func serveGuest(socket string) (err error) {
	core := remote.New(remote.Config{Path: socket, Completions: guestRing})
	m, err := transport.MessengerConfig{Unread: 4 * guestRing}.Open(context.Background(), core, guestAddress)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	return serveRole()
}

// faultyClient is a node with a client that is stopped while messages for it arrive.
func faultyClient(t *testing.T, r *record) {
	a, _ := pair(t)
	a.startWith(t, &configuration{})
	socket := filepath.Join(a.dir, "lnetd.sock")
	guest := a.startRole(t, guestEnv, socket)
	m, err := transport.OpenMessenger(t.Context(), remote.New(remote.Config{Path: socket}), senderAddress)
	if err != nil {
		t.Fatal(err)
	}
	to := m.Addr()
	to.TMID = 1
	a.wantFindings(t, "a healthy client", nil)
	r.suffer(t, a, planted{
		name: "a client is stuck", code: diagnosis.ClientStuck, evidence: fmt.Sprintf("in a ring of %d, and lnetd keeps", guestRing),
		plant: func() {
			if err := guest.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			for range 2 * guestRing {
				if err := m.Send(t.Context(), to, []byte("hello")); err != nil {
					t.Fatal(err)
				}
			}
		},
		mend: func() {
			if err := guest.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
		},
	})
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}
