package service

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/daemontest"
)

// oneNI and twoNIs are configurations. The interface of the second NI appears later.
const (
	oneNI  = "net:\n    - net type: tcp\n      local NI(s):\n        - interfaces:\n              0: lo\n"
	twoNIs = oneNI + "    - net type: tcp1\n      local NI(s):\n        - interfaces:\n              0: late0\n"
	metric = "lnetd:\n    metrics_addr: 127.0.0.1:9101\n"
	config = "etc/lnetd/lnetd.yaml"
)

// The subtests run on one machine, in order. Each starts in the state that the one before has left,
// with lnetd stopped.
//
// lnetctl 14 (2)
func TestService(t *testing.T) {
	m := boot(t)
	for _, part := range []struct {
		name string
		run  func(*testing.T, *machine)
	}{
		{"units", units},
		{"start", start},
		{"failedStart", failedStart},
		{"slowStart", slowStart},
		{"journal", journal},
		{"reload", reload},
		{"restart", restart},
		{"crash", crash},
		{"notNeeded", notNeeded},
		{"stopped", stopped},
		{"wedged", wedged},
		{"activation", activation},
		{"wrongSocket", wrongSocket},
		{"group", group},
		{"namespaces", namespaces},
	} {
		if !t.Run(part.name, func(t *testing.T) {
			m.fresh(t)
			m.Write(t, config, oneNI)
			part.run(t, m)
		}) {
			return
		}
	}
}

// exposureMost is the highest accepted exposure of systemd-analyze, out of 10.
const exposureMost = 2.0

// The units have no mistakes, and the exposure of lnetd is low.
func units(t *testing.T, m *machine) {
	const dir = "/usr/lib/systemd/system/"
	files := m.sh(t, "cd "+dir+" && ls lnetd*")
	for _, unit := range strings.Fields(strings.ReplaceAll(files, "lnetd@.service", "lnetd@pod1.service")) {
		if out := m.sh(t, "systemd-analyze verify --man=no "+dir+unit+" 2>&1"); out != "" {
			t.Errorf("%s: %s", unit, out)
		}
	}
	for _, unit := range []string{"lnetd.service", "lnetd@pod1.service"} {
		out := m.sh(t, "systemd-analyze security --offline=true --threshold=20 --no-pager "+dir+strings.Replace(unit, "pod1", "", 1))
		level := regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`).FindStringSubmatch(out)
		if level == nil {
			t.Fatalf("no exposure level:\n%s", out)
		}
		if x, err := strconv.ParseFloat(level[1], 64); err != nil || x > exposureMost {
			t.Errorf("%s: exposure %s", unit, level[1])
		}
		t.Logf("%s: exposure level %s, at most %.1f", unit, level[1], exposureMost)
	}
}

// lnetd is ready when its NIs are up or waiting, and the status line says which, also after a
// change. lnetd runs as a separate user with one capability, and listens at 988.
func start(t *testing.T, m *machine) {
	m.Write(t, config, twoNIs)
	m.sh(t, "systemctl start lnetd")
	if s := m.property(t, "lnetd", "StatusText"); s != `1 NI is up; waiting for: tcp1(late0) ("late0": no such network device)` {
		t.Errorf("status %q", s)
	}
	if s := m.property(t, "lnetd", "ActiveState"); s != "active" {
		t.Errorf("it is %s", s)
	}
	who := m.sh(t, "stat --format=%U /proc/"+m.pid(t, "lnetd")+" /run/lnetd/control.sock /run/lnetd/lnetd.sock | sort --unique")
	if who != "lnetd" {
		t.Errorf("processes and sockets belong to %q", who)
	}
	if caps := m.sh(t, "grep CapBnd /proc/"+m.pid(t, "lnetd")+"/status | cut -f2"); caps != "0000000000000400" { // bit 10
		t.Errorf("capabilities %s", caps)
	}
	if out := m.sh(t, "lnetdctl net show"); !strings.Contains(out, "127.0.0.1@tcp") {
		t.Errorf("net show: %s", out)
	}
	if out := m.sh(t, "lnetdctl ping 127.0.0.1@tcp"); !strings.Contains(out, "primary nid") {
		t.Errorf("ping: %s", out)
	}
	m.sh(t, "ip link add late0 type veth peer name late1 && ip addr add 10.99.0.1/24 dev late0 && ip link set late1 up && ip link set late0 up")
	m.await(t, "lnetd", "StatusText", equal("2 NIs are up"))
	m.sh(t, "ip link delete late0")
	m.await(t, "lnetd", "StatusText", func(s string) bool { return s != "2 NIs are up" })
	t.Logf("without its interface: %q", m.property(t, "lnetd", "StatusText"))
}

// If a configuration cannot be read or applied, the unit fails, and the journal has the reason.
// After it is repaired, the unit starts.
func failedStart(t *testing.T, m *machine) {
	m.drop(t, "lnetd.service", "[Service]\nRestart=no\n")
	fails := func(name, yaml, reason string) {
		t.Helper()
		m.Write(t, config, yaml)
		if out, err := m.Try(t, "systemctl start lnetd"); err == nil {
			t.Errorf("%s: it starts: %s", name, out)
		}
		if s := m.property(t, "lnetd", "ActiveState"); s != "failed" {
			t.Errorf("%s: it is %s", name, s)
		}
		if r := m.property(t, "lnetd", "Result"); r != "exit-code" {
			t.Errorf("%s: result %s", name, r)
		}
		m.logged(t, "_SYSTEMD_INVOCATION_ID="+m.property(t, "lnetd", "InvocationID"), reason)
	}
	fails("cannot be read", "net: nonsense\n", "lnetd.yaml:1")
	m.sh(t, "systemd-run --quiet --unit=busy --socket-property=ListenStream=127.0.0.1:988 sleep infinity")
	fails("cannot be applied", oneNI, "TCP port 127.0.0.1:988 is in use")
	m.sh(t, "systemctl stop busy.socket")
	m.sh(t, "systemctl start lnetd")
}

// A start that waits for a gateway may take longer than the timeout of the unit. The gateway here
// accepts the connection and never answers.
func slowStart(t *testing.T, m *machine) {
	m.drop(t, "lnetd.service", "[Service]\nTimeoutStartSec=3s\n")
	m.Write(t, config, oneNI+"route:\n    - net: tcp9\n      gateway: 127.0.0.9@tcp\n"+
		"lnetd:\n    check_routers_before_use: 1\n    router_ping_timeout: 8\n")
	m.sh(t, "systemd-run --quiet --unit=deaf --socket-property=ListenStream=127.0.0.9:988 sleep infinity")
	m.sh(t, "systemctl start lnetd")
	if n := m.property(t, "lnetd", "NRestarts"); n != "0" {
		t.Errorf("it was started anew %s times", n)
	}
	m.logged(t, "--unit=lnetd", "gateway does not answer")
	m.sh(t, "systemctl stop deaf.socket deaf.service")
}

// Lines of lnetd are journal entries with fields, each of which can be searched for. This includes
// lines of a level that is set while lnetd runs.
func journal(t *testing.T, m *machine) {
	m.sh(t, "systemctl start lnetd")
	of := "_PID=" + m.pid(t, "lnetd")
	m.logged(t, of+" LNET_EVENT=ready LNET_CONTROL_SOCKET=/run/lnetd/control.sock", "ready control_socket=/run/lnetd/control.sock")
	if out := m.sh(t, "lnetdctl log show"); !strings.Contains(out, "journal") {
		t.Errorf("log show: %s", out)
	}
	m.sh(t, "lnetdctl set log_level debug && lnetdctl ping 127.0.0.1@tcp")
	m.logged(t, of+" PRIORITY=7 SYSLOG_IDENTIFIER=lnetd LNET_EVENT=accepted", "accepted nid=127.0.0.1@tcp")
	m.logged(t, of+" PRIORITY=6 LNET_LEVEL=debug", "log level changed level=debug from=info")
	m.sh(t, "systemctl stop lnetd")
	// Output before the log is set up is plain text.
	m.Write(t, config, "net: nonsense\n")
	if out, err := m.Try(t, "systemctl start lnetd"); err == nil {
		t.Errorf("it starts: %s", out)
	}
	m.logged(t, "--unit=lnetd", "lnetd.yaml:1")
}

// The beginning and the end of a reload are visible, and it changes what differs. A failed reload
// is reported.
func reload(t *testing.T, m *machine) {
	m.sh(t, "systemctl start lnetd")
	pid := m.pid(t, "lnetd")
	// A slow configuration: the pipe has no data yet.
	m.sh(t, "cd /etc/lnetd && mv lnetd.yaml lnetd.old && mkfifo --mode=644 lnetd.yaml && systemctl reload --no-block lnetd")
	m.await(t, "lnetd", "StatusText", with("reloading the configuration; 1 NI is up"))
	if s := m.property(t, "lnetd", "ActiveState"); s != "reloading" {
		t.Errorf("it is %s", s)
	}
	fifo, err := os.OpenFile(m.Root+"/"+config, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fifo.WriteString(twoNIs); err != nil {
		t.Fatal(err)
	}
	if err := fifo.Close(); err != nil {
		t.Fatal(err)
	}
	m.await(t, "lnetd", "ActiveState", equal("active"))
	m.await(t, "lnetd", "StatusText", with("1 NI is up; waiting for: tcp1(late0)"))
	m.sh(t, "rm /etc/lnetd/lnetd.yaml")

	m.Write(t, config, "net: nonsense\n")
	m.sh(t, "systemctl reload lnetd")
	s := m.await(t, "lnetd", "StatusText", with("the last reload failed"))
	if !strings.Contains(s, "1 NI is up") || !strings.Contains(s, "lnetd.yaml:1") {
		t.Errorf("status %q", s)
	}
	m.await(t, "lnetd", "ActiveState", equal("active"))
	m.Write(t, config, oneNI)
	m.sh(t, "systemctl reload lnetd")
	m.await(t, "lnetd", "StatusText", equal("1 NI is up"))
	if now := m.pid(t, "lnetd"); now != pid {
		t.Errorf("process %s is %s now", pid, now)
	}
}

// Sockets that lnetd has created stay open during a restart, so no client is refused. When lnetd is
// stopped, systemd keeps none.
func restart(t *testing.T, m *machine) {
	m.Write(t, config, oneNI+metric)
	m.sh(t, "systemctl start lnetd")
	m.await(t, "lnetd", "NFileDescriptorStore", equal("3"))
	const sockets = "stat --format=%i /run/lnetd/control.sock /run/lnetd/lnetd.sock"
	before, pid := m.sh(t, sockets), m.pid(t, "lnetd")
	// Connects repeatedly, and records failures.
	m.Write(t, "root/hammer", `
count=0
while [ ! -e /run/enough ]; do
	(exec 3<>/dev/tcp/127.0.0.1/9101) || echo refused
	count=$((count + 1))
done
echo $count connections
`)
	m.sh(t, "rm -f /run/enough; systemd-run --unit=hammer --quiet --property=StandardOutput=file:/run/hammer bash /root/hammer")
	for range 3 {
		m.sh(t, "systemctl restart lnetd")
	}
	m.sh(t, "touch /run/enough")
	m.await(t, "hammer", "ActiveState", equal("inactive"))
	out := m.sh(t, "cat /run/hammer")
	if !regexp.MustCompile(`(?m)^[0-9]+ connections$`).MatchString(out) || strings.Contains(out, "refused") {
		t.Errorf("during restarts: %s", out)
	}
	t.Logf("during 3 restarts: %s", out)
	if after := m.sh(t, sockets); after != before || m.pid(t, "lnetd") == pid {
		t.Errorf("sockets before %q, after %q", before, after)
	}
	if n := m.property(t, "lnetd", "NFileDescriptorStore"); n != "3" {
		t.Errorf("%s sockets are kept", n)
	}
	m.client(t)
	m.sh(t, "systemctl stop lnetd")
	if n := m.property(t, "lnetd", "NFileDescriptorStore"); n != "0" {
		t.Errorf("%s sockets are kept when it is stopped", n)
	}
	m.sh(t, "systemctl start lnetd")
	m.client(t)
}

// ping returns the command of a program with transfer machines on the lnetd at a socket.
func ping(socket string) string {
	return "lnetperf ping --through " + socket + " --loops 10 --bulk-size 64K --quiet"
}

// client runs such a program at lnetd's default socket.
func (m *machine) client(t *testing.T) {
	t.Helper()
	m.sh(t, ping("/run/lnetd/lnetd.sock"))
}

// page returns the command that requests the metrics.
func page(port int) string {
	return fmt.Sprintf(`exec 3<>/dev/tcp/127.0.0.1/%d && printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3 && cat <&3`, port)
}

// A client that connects to an lnetd that does not answer, and then dies, is served by the next
// lnetd: the connections that wait in the sockets are not lost.
func crash(t *testing.T, m *machine) {
	m.Write(t, config, oneNI+metric)
	m.sh(t, "systemctl start lnetd")
	m.await(t, "lnetd", "NFileDescriptorStore", equal("3"))
	pid := m.pid(t, "lnetd")
	m.sh(t, "kill -STOP "+pid)
	commands := map[string]string{
		"control": "lnetdctl net show",
		"clients": ping("/run/lnetd/lnetd.sock"),
		"metrics": "bash -c \"" + strings.NewReplacer(`\r\n`, `\\r\\n`, `"`, `\"`).Replace(page(9101)) + "\"",
	}
	for name, command := range commands {
		m.Write(t, "root/"+name, command+"\n")
		m.sh(t, "systemd-run --quiet --unit=wait-"+name+" --property=RemainAfterExit=yes bash /root/"+name)
	}
	// Each of them waits to be accepted.
	daemontest.Within(t, patience, "connections that wait", func() error {
		out := m.sh(t, "ss --no-header --listening --unix --tcp --numeric | awk '$3 > 0' | grep -c -e control.sock -e lnetd.sock -e :9101 || true")
		if out != "3" {
			return fmt.Errorf("%s sockets have some", out)
		}
		return nil
	})
	m.sh(t, "kill -KILL "+pid)
	m.await(t, "lnetd", "NRestarts", equal("1"))
	for name := range commands {
		m.await(t, "wait-"+name, "SubState", equal("exited"))
		if r := m.property(t, "wait-"+name, "Result"); r != "success" {
			t.Errorf("%s: %s: %s", name, r, m.sh(t, "journalctl --no-pager --output=cat _SYSTEMD_UNIT=wait-"+name+".service"))
		}
		m.sh(t, "systemctl stop wait-"+name)
	}
}

// Sockets that are no longer needed are removed: connecting to them fails.
func notNeeded(t *testing.T, m *machine) {
	m.Write(t, config, oneNI+metric)
	m.sh(t, "systemctl start lnetd")
	m.await(t, "lnetd", "NFileDescriptorStore", equal("3"))
	m.Write(t, config, oneNI)
	m.sh(t, "systemctl restart lnetd")
	if n := m.property(t, "lnetd", "NFileDescriptorStore"); n != "2" {
		t.Errorf("%s sockets are kept", n)
	}
	if out, err := m.Try(t, page(9101)); err == nil {
		t.Errorf("metrics are there: %s", out)
	}
	m.Write(t, config, oneNI+strings.Replace(metric, "127.0.0.1", "0.0.0.0", 1))
	m.sh(t, "systemctl restart lnetd")
	m.sh(t, page(9101))
	m.Write(t, config, oneNI+metric) // at the port of the socket that systemd keeps
	m.sh(t, "systemctl restart lnetd")
	m.sh(t, page(9101))
}

const quickWatchdog = "[Service]\nWatchdogSec=4s\n"

// The watchdog kills an lnetd that is stopped, and systemd starts it again.
func stopped(t *testing.T, m *machine) {
	m.drop(t, "lnetd.service", quickWatchdog)
	m.sh(t, "systemctl start lnetd")
	pid := m.pid(t, "lnetd")
	m.sh(t, "kill -STOP "+pid)
	m.await(t, "lnetd", "NRestarts", equal("1"))
	m.await(t, "lnetd", "StatusText", equal("1 NI is up"))
	if now := m.pid(t, "lnetd"); now == pid {
		t.Errorf("still process %s", pid)
	}
	m.logged(t, "--unit=lnetd", "Watchdog timeout")
	m.sh(t, "lnetdctl net show")
}

// If a loop of lnetd is stuck while the rest works, lnetd reports that. The watchdog ends it, the
// journal has the stacks of its goroutines, and it works after the restart.
func wedged(t *testing.T, m *machine) {
	m.drop(t, "lnetd.service", "[Service]\nWatchdogSec=8s\nExecStart=\nExecStart=/usr/bin/wedged\n")
	for loop, at := range map[string]string{"discoverer": "main.discoverer", "monitor": "main.monitor"} {
		m.sh(t, "systemctl start lnetd")
		pid := m.pid(t, "lnetd")
		m.sh(t, "touch /run/lnetd/wedge-"+loop)
		// Its status says so too, for seconds, which a busy machine may miss.
		m.await(t, "lnetd", "NRestarts", equal("1"))
		m.await(t, "lnetd", "StatusText", equal("1 NI is up"))
		m.logged(t, "_PID="+pid, "the node is stuck", loop, at)
		m.fresh(t)
	}
}

// With socket units, a client that connects to any of the three sockets starts lnetd, and gets an
// answer.
func activation(t *testing.T, m *machine) {
	m.sh(t, "systemctl start lnetd-control.socket lnetd-clients.socket lnetd-metrics.socket")
	for name, ask := range map[string]func(){
		"control": func() { m.sh(t, "lnetdctl net show") },
		"clients": func() { m.client(t) },
		"metrics": func() {
			if out := m.sh(t, page(9989)); !strings.Contains(out, "lnetd_build_info") {
				t.Errorf("metrics: %s", out)
			}
		},
	} {
		if s := m.property(t, "lnetd", "ActiveState"); s != "inactive" {
			t.Fatalf("%s: lnetd is %s before", name, s)
		}
		ask()
		m.await(t, "lnetd", "StatusText", equal("1 NI is up"))
		if n := m.property(t, "lnetd", "NFileDescriptorStore"); n != "0" {
			t.Errorf("%s: %s sockets are kept besides", name, n)
		}
		m.sh(t, "systemctl restart lnetd")
		m.client(t)
		m.sh(t, "systemctl stop lnetd 2>&1")
		m.sh(t, "test -S /run/lnetd/control.sock -a -S /run/lnetd/lnetd.sock")
	}
	// Change from lnetd's sockets to those of units: the kept ones are removed.
	m.sh(t, "systemctl stop lnetd-control.socket lnetd-clients.socket lnetd-metrics.socket; systemctl start lnetd")
	m.await(t, "lnetd", "NFileDescriptorStore", equal("2"))
	m.sh(t, "systemctl stop lnetd && systemctl start lnetd-control.socket lnetd-clients.socket && lnetdctl net show")
	m.await(t, "lnetd", "NFileDescriptorStore", equal("0"))
	m.client(t)
}

// A socket of the wrong type is refused with a reason.
func wrongSocket(t *testing.T, m *machine) {
	m.drop(t, "lnetd-clients.socket", "[Socket]\nListenSequentialPacket=\nListenStream=/run/lnetd/lnetd.sock\n")
	m.sh(t, "systemctl start lnetd-clients.socket")
	if out, err := m.Try(t, "systemctl start lnetd"); err == nil {
		t.Errorf("it starts: %s", out)
	}
	m.logged(t, "--unit=lnetd", "[inherited-socket]", "ListenSequentialPacket=/PATH")
	m.sh(t, "systemctl stop lnetd lnetd-clients.socket; systemctl reset-failed")
}

// The clients' socket can belong to another group of lnetd's user.
func group(t *testing.T, m *machine) {
	m.drop(t, "lnetd.service", "[Service]\nSupplementaryGroups=users\n")
	gid := m.sh(t, "getent group users | cut -d: -f3")
	m.Write(t, config, oneNI+"lnetd:\n    transport:\n        group: "+gid+"\n")
	m.sh(t, "systemctl start lnetd")
	if g := m.sh(t, "stat --format='%G %a' /run/lnetd/lnetd.sock"); g != "users 660" {
		t.Errorf("the socket is of %s", g)
	}
	m.client(t)
	m.Write(t, config, oneNI)
	m.sh(t, "systemctl restart lnetd") // the kept socket has the wrong group
	if g := m.sh(t, "stat --format='%G %a' /run/lnetd/lnetd.sock"); g != "lnetd 660" {
		t.Errorf("then it is of %s", g)
	}
	m.client(t)
}

// Instances run in network namespaces, each with separate sockets, at the same port as others.
// These sockets are kept over a restart too.
func namespaces(t *testing.T, m *machine) {
	m.sh(t, "systemctl start lnetd")
	if out, err := m.Try(t, "systemctl start lnetd@pod1 2>&1"); err == nil || !strings.Contains(out, "ssert") {
		t.Errorf("without its namespace: %v, %s", err, out)
	}
	for _, pod := range []string{"pod1", "pod2"} {
		m.sh(t, "ip netns add "+pod+" && ip -n "+pod+" link set lo up")
		m.Write(t, "etc/lnetd/"+pod+".yaml", oneNI+metric)
		m.sh(t, "systemctl start lnetd@"+pod)
		if s := m.property(t, "lnetd@"+pod, "StatusText"); s != "1 NI is up" {
			t.Errorf("%s: status %q", pod, s)
		}
		pid := m.pid(t, "lnetd@"+pod)
		if in := m.sh(t, "ip netns identify "+pid); in != pod {
			t.Errorf("%s runs in %q", pod, in)
		}
		m.await(t, "lnetd@"+pod, "NFileDescriptorStore", equal("3"))
		sockets := "stat --format=%i /run/lnetd/" + pod + "/control.sock /run/lnetd/" + pod + "/lnetd.sock"
		before := m.sh(t, sockets)
		m.sh(t, "systemctl restart lnetd@"+pod)
		if after := m.sh(t, sockets); after != before || m.pid(t, "lnetd@"+pod) == pid {
			t.Errorf("%s: sockets before %q, after %q", pod, before, after)
		}
		m.sh(t, "lnetdctl --control-socket /run/lnetd/"+pod+"/control.sock net show")
		m.sh(t, ping("/run/lnetd/"+pod+"/lnetd.sock"))
		m.sh(t, "ip netns exec "+pod+" bash -c "+quoted(page(9101)))
	}
	m.client(t) // of the default instance
	m.sh(t, "systemctl stop lnetd@pod1")
	m.sh(t, "test ! -e /run/lnetd/pod1 -a -S /run/lnetd/pod2/control.sock -a -S /run/lnetd/control.sock")
	m.sh(t, "systemctl stop lnetd@pod2")
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
