//go:build !race

// The programs that these tests run are built without the race detector, so .ci/run runs the tests once, without it.

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/daemontest"
	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// proxied are three lnetd: a node on tcp, a node on udp, and the router between them. Proxies serve udp.
type proxied struct {
	programs, dir string
	port          int
}

// start starts an lnetd with a configuration.
func (p *proxied) start(t *testing.T, name, config string) *daemontest.Process {
	t.Helper()
	file, socket := filepath.Join(p.dir, name+".yaml"), filepath.Join(p.dir, name+".sock")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return daemontest.Run(t, daemontest.Launch{
		Name: name, Programs: p.programs, Socket: socket,
		Command: []string{filepath.Join(p.programs, "lnetd"), "--config", file, "--port", strconv.Itoa(p.port), "--control-socket", socket},
	})
}

// proxy starts the proxy of an lnetd, and returns its process.
func (p *proxied) proxy(t *testing.T, name, address string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(filepath.Join(p.programs, "udpproxy"),
		"-socket", filepath.Join(p.dir, name+"-proxies.sock"), "-address", address, "-port", strconv.Itoa(p.port))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

// awaitText waits until the output of a command contains a text.
func awaitText(t *testing.T, l *daemontest.Process, text string, command ...string) {
	t.Helper()
	daemontest.Within(t, time.Minute, text, func() error {
		if out, _ := l.Ctl(t, command...); !strings.Contains(out, text) {
			return fmt.Errorf("%q printed %s", command, out)
		}
		return nil
	})
}

// proxiesSection is the section "lnetd" of all configurations. A gateway whose NI has come up is used after the next
// ping.
const proxiesSection = `
lnetd:
  alive_router_check_interval: 1
  proxies:
    net_types: [{name: udp, number: 200}]
`

// Nodes on tcp and on a net that proxies serve reach each other through a router. The router names the reason when
// its proxy is missing, is killed, or is refused, and works again with the next proxy.
//
// UP-1, UP-2, UP-8
func TestProxies(t *testing.T) {
	p := &proxied{programs: t.TempDir(), dir: testenv.SocketDir(t)}
	if err := daemontest.Build(p.programs); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", p.programs, "../../examples/udpproxy").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	var err error
	if p.port, err = daemontest.FreePort("127.0.0.2", "127.0.0.3"); err != nil {
		t.Fatal(err)
	}
	router := `
net:
  - {net type: tcp, nid: 127.0.0.3@tcp}
  - {net type: udp, nid: 127.0.0.3@udp, proxy: udpproxy}
` + proxiesSection + "  forwarding: enabled\n"
	r := p.start(t, "r", router)
	a := p.start(t, "a", "net: [{net type: tcp, nid: 127.0.0.2@tcp}]\nroute: [{net: udp, gateway: 127.0.0.3@tcp}]\n"+proxiesSection)
	b := p.start(t, "b", "net: [{net type: udp, nid: 127.0.0.4@udp}]\nroute: [{net: tcp, gateway: 127.0.0.3@udp}]\n"+proxiesSection)

	const missing = `no proxy with the name "udpproxy" is attached: start the program that serves net udp`
	awaitText(t, r, missing, "net", "show", "-v", "--net", "udp")
	awaitText(t, r, "127.0.0.3@udp is down: "+missing, "clients")
	if _, status := r.Ctl(t, "ping", "127.0.0.4@udp", "--timeout", "2"); status == 0 {
		t.Error("a ping without a proxy was answered")
	}
	first := p.proxy(t, "r", "127.0.0.3")
	p.proxy(t, "b", "127.0.0.4")
	reach := func() {
		t.Helper()
		awaitText(t, a, "primary nid: 127.0.0.4@udp", "ping", "127.0.0.4@udp", "--timeout", "5")
		awaitText(t, b, "primary nid: 127.0.0.2@tcp", "ping", "127.0.0.2@tcp", "--timeout", "5")
		awaitText(t, r, "primary nid: 127.0.0.4@udp", "ping", "127.0.0.4@udp", "--timeout", "5")
	}
	reach()
	awaitText(t, r, fmt.Sprintf(`"pid": %d,`, first.Process.Pid), "clients", "--json")
	awaitText(t, r, "udpproxy 127.0.0.3@udp", "clients")
	awaitText(t, r, "proxy: udpproxy", "net", "show", "--net", "udp")

	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	awaitText(t, r, missing, "clients")
	second := p.proxy(t, "r", "127.0.0.3")
	reach()

	// The rules are replaced while lnetd runs. They do not concern the proxy that is attached.
	denied := strings.Replace(router, "    net_types", "    rules: [{name: nobody, users: [4000000000]}]\n    net_types", 1)
	if err := os.WriteFile(filepath.Join(p.dir, "r.yaml"), []byte(denied), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	daemontest.Within(t, time.Minute, "new rules", func() error {
		if !strings.Contains(r.Log.String(), "new rules apply to proxies") {
			return fmt.Errorf("the log has no such line")
		}
		return nil
	})
	reach()
	if err := second.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.proxy(t, "r", "127.0.0.3")
	awaitText(t, r, "no rule permits user", "clients")
	a.Stop(t)
	b.Stop(t)
	r.Stop(t)
}

// NIs that proxies serve are added, planned, exported, and deleted with the same commands as others.
//
// UP-1, UP-8
func TestProxiedNets(t *testing.T) {
	p := &proxied{programs: t.TempDir(), dir: testenv.SocketDir(t)}
	if err := daemontest.Build(p.programs); err != nil {
		t.Fatal(err)
	}
	var err error
	if p.port, err = daemontest.FreePort("127.0.0.2"); err != nil {
		t.Fatal(err)
	}
	l := p.start(t, "l", "net: [{net type: tcp, nid: 127.0.0.2@tcp}]\n"+proxiesSection)
	l.Must(t, "net", "add", "--net", "udp", "--proxy", "any name", "--if", "lo")
	l.Must(t, "net", "add", "--nid", "10.9.8.7@udp3", "--credits", "64")
	awaitText(t, l, "proxy: any name", "net", "show", "--net", "udp")
	awaitText(t, l, "10.9.8.7@udp3 is down: no proxy is attached", "clients")
	for _, wrong := range [][]string{
		{"--net", "tcp7", "--if", "lo", "--proxy", "x"}, {"--net", "udp4"}, {"--net", "other", "--proxy", "x"},
		{"--net", "udp4", "--if", "lo", "--proxy", strings.Repeat("x", 32)},
	} {
		if out, status := l.Ctl(t, append([]string{"net", "add"}, wrong...)...); status == 0 {
			t.Errorf("%q: %s", wrong, out)
		}
	}
	l.Must(t, "udsp", "add", "--src", "udp3", "--priority", "0")
	l.Must(t, "udsp", "del", "--idx", "0")
	l.Must(t, "net", "set", "--net", "udp3", "--lnd-timeout", "33")
	awaitText(t, l, "timeout: 33", "net", "show", "-v", "--net", "udp3")

	backup := filepath.Join(p.dir, "backup.yaml")
	if err := os.WriteFile(backup, []byte(l.Must(t, "export", "--backup")), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := l.Must(t, "plan", backup); strings.TrimSpace(out) != "" {
		t.Errorf("the plan of what lnetd has:\n%s", out)
	}
	later := filepath.Join(p.dir, "later.yaml")
	if err := os.WriteFile(later, []byte("lnetd: {proxies: {net_types: [{name: udp, number: 200}, {name: later, number: 201}]}}\n"+
		"route: [{net: later, gateway: 127.0.0.9@tcp}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := l.Must(t, "plan", "--add", later); !strings.Contains(out, "route add --net later") {
		t.Errorf("the plan with another net type:\n%s", out)
	}
	modprobe := filepath.Join(p.dir, "lnet.conf")
	if err := os.WriteFile(modprobe, []byte(`options lnet networks="udp5(lo)" routes="udp7 127.0.0.9@udp5"`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := l.Must(t, "plan", "--add", "--modprobe", modprobe); !strings.Contains(out, "net add --net udp5 --if lo") {
		t.Errorf("the plan of module parameters:\n%s", out)
	}
	l.Must(t, "net", "del", "--net", "udp")
	l.Must(t, "net", "del", "--net", "udp3")
	if out := l.Must(t, "plan", backup); !strings.Contains(out, "net add --net udp --if lo --proxy 'any name'") {
		t.Errorf("the plan:\n%s", out)
	}
	l.Must(t, "import", backup)
	awaitText(t, l, "proxy: any name", "net", "show", "--net", "udp")
	l.Stop(t)
}
