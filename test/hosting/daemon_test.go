package hosting

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/client"
	"github.com/lnetd/lnetd/internal/testing/daemontest"
	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// patience is the time limit for events that must happen.
const patience = time.Minute

// build is a program that is built on first use.
type build struct {
	flags []string
	once  sync.Once
	path  string
	err   error
}

// lnetd is the program that campaigns run. racy is built with the race detector if the test is.
var (
	lnetd build
	racy  = build{flags: raceFlags()}
)

func raceFlags() []string {
	if testenv.Race {
		return []string{"-race"}
	}
	return nil
}

// program returns the path of the program.
func (b *build) program(t testing.TB) string {
	t.Helper()
	b.once.Do(func() {
		dir, err := os.MkdirTemp("", "hosting")
		if err != nil {
			b.err = err
			return
		}
		b.path = filepath.Join(dir, "lnetd")
		args := append(append([]string{"build", "-buildvcs=false"}, b.flags...), "-o", b.path, "../../cmd/lnetd")
		if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
			b.err = fmt.Errorf("go build: %w\n%s", err, out)
		}
	})
	if b.err != nil {
		t.Fatal(b.err)
	}
	return b.path
}

// forget removes the program.
func (b *build) forget() {
	if b.path != "" {
		_ = os.RemoveAll(filepath.Dir(b.path))
	}
}

// address returns the n-th loopback address of this run. Other runs use other addresses.
func address(n int) string {
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d", 16+pid>>8%200, pid&255, n)
}

// settings are the differences between one lnetd and another.
type settings struct {
	host         int // its number
	listen, call int // ports; call 0: as listen
	extra        string
	requests     int    // in a second, of a connection; 0: a million
	each         string // other quotas of a connection
	where        string // its directory; "": a new one
	program      *build // nil: lnetd
}

// daemon is a running lnetd.
type daemon struct {
	t       testing.TB
	nid     string // its NID
	socket  string // for clients
	config  string // its configuration file, and what of that is the same in all
	base    string
	control *client.Client
	metrics string
	cmd     *exec.Cmd
	log     *daemontest.Log
	ended   chan struct{} // closed when it has
	status  error         // then
}

// launch runs lnetd until the end of the test.
func launch(t testing.TB, s settings) *daemon {
	t.Helper()
	dir := s.where
	if dir == "" {
		dir = testenv.SocketDir(t)
	}
	host := address(s.host)
	if s.listen == 0 {
		s.listen = freePort(t, host)
	}
	if s.call == 0 {
		s.call = s.listen
	}
	if s.requests == 0 {
		s.requests = 1_000_000
	}
	metrics := "127.0.0.1:" + strconv.Itoa(freePort(t, "127.0.0.1"))
	d := &daemon{
		t: t, nid: host + "@tcp", socket: filepath.Join(dir, "p.sock"), metrics: "http://" + metrics + "/metrics",
		config: filepath.Join(dir, "lnetd.yaml"), log: &daemontest.Log{}, ended: make(chan struct{}),
	}
	control := filepath.Join(dir, "c.sock")
	d.base = fmt.Sprintf(`lnetd:
    port: %d
    connect_port: %d
    accept: all
    source_ports: any
    transport:
        socket: %s
        farewell: 0
        rules: [{name: all, each: {requests: %d%s}, user: {connections: 4096, tms: 4095, areas: 65536, memory: 65536}}]
`, s.listen, s.call, d.socket, s.requests, s.each)
	d.configure(fmt.Sprintf("net:\n    - {net type: tcp, nid: %s}\n%s", d.nid, s.extra))
	if s.program == nil {
		s.program = &lnetd
	}
	d.cmd = exec.Command(s.program.program(t), "--control-socket", control, "--config", d.config, "--metrics-addr", metrics)
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr, err := d.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := make(chan struct{})
	go d.listen(stderr, ready)
	d.control = client.New(control)
	t.Cleanup(func() {
		_ = d.cmd.Process.Kill()
		<-d.ended
		d.control.Close()
		if t.Failed() {
			t.Logf("lnetd's log:\n%s", telling(d.log.String()))
		}
	})
	select {
	case <-ready:
	case <-d.ended:
		t.Fatalf("lnetd: %v\n%s", d.status, d.log)
	case <-time.After(patience):
		t.Fatalf("lnetd is not ready\n%s", d.log)
	}
	return d
}

// configure writes the configuration file: the given text, and the part that is always the same.
func (d *daemon) configure(text string) {
	d.t.Helper()
	if err := os.WriteFile(d.config, []byte(text+d.base), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// listen reads lnetd's log until its end, and waits for the end of the process.
func (d *daemon) listen(stderr io.Reader, ready chan struct{}) {
	r := bufio.NewReader(stderr)
	for {
		line, err := r.ReadString('\n')
		_, _ = d.log.Write([]byte(line))
		if ready != nil && strings.Contains(line, `"msg":"ready"`) {
			close(ready)
			ready = nil
		}
		if err != nil {
			break
		}
	}
	d.status = d.cmd.Wait()
	close(d.ended)
}

// end sends a signal that ends lnetd, and waits for its end.
func (d *daemon) end(s syscall.Signal) {
	d.t.Helper()
	if err := d.cmd.Process.Signal(s); err != nil {
		d.t.Fatal(err)
	}
	select {
	case <-d.ended:
	case <-time.After(patience):
		d.t.Fatalf("lnetd goes on after %v", s)
	}
}

// errorLines returns the lines of lnetd's log that are errors or the start of a crash.
func (d *daemon) errorLines() (lines []string) {
	for line := range strings.Lines(d.log.String()) {
		if strings.Contains(line, `"level":"error"`) || strings.Contains(line, `"level":"ERROR"`) || strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") || strings.HasPrefix(line, "WARNING: DATA RACE") {
			lines = append(lines, line)
		}
	}
	return lines
}

// wantHealthy checks that lnetd is running and has logged no errors.
func (d *daemon) wantHealthy() {
	d.t.Helper()
	select {
	case <-d.ended:
		d.t.Errorf("lnetd has ended: %v", d.status)
	default:
	}
	for _, line := range d.errorLines() {
		d.t.Errorf("lnetd complains: %s", line)
	}
}

// figures are the resources of a process.
type figures struct {
	rss                 int // bytes
	fds, maps, memfds   int
	threads, goroutines int
	processor           time.Duration
	memfdMaps           int
}

func (f figures) String() string {
	return fmt.Sprintf("RSS %.1f MiB, %d fds (%d memfds), %d maps (%d of memfds), %d threads, %d goroutines",
		float64(f.rss)/(1<<20), f.fds, f.memfds, f.maps, f.memfdMaps, f.threads, f.goroutines)
}

// figures reads lnetd's resources.
func (d *daemon) figures() figures {
	d.t.Helper()
	f := processFigures(d.t, d.cmd.Process.Pid)
	f.goroutines = int(d.metric("go_goroutines"))
	return f
}

// wantUnchanged checks that lnetd uses no more resources than before, apart from a few connections for status
// requests.
func (d *daemon) wantUnchanged(before figures) {
	d.t.Helper()
	const few = 6 // each has a descriptor and two goroutines
	var now figures
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		now = d.figures()
		if now.memfds <= before.memfds && now.memfdMaps <= before.memfdMaps && now.fds <= before.fds+few &&
			now.goroutines <= before.goroutines+2*few && now.rss <= before.rss+before.rss/2+16<<20 {
			break
		}
		if time.Now().After(end) {
			d.t.Errorf("lnetd holds more than it did")
			break
		}
	}
	d.t.Logf("lnetd, before: %v", before)
	d.t.Logf("lnetd, after:  %v", now)
}

// metric returns the value of a metric without labels.
func (d *daemon) metric(name string) float64 {
	d.t.Helper()
	r, err := http.Get(d.metrics)
	if err != nil {
		d.t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	s := bufio.NewScanner(r.Body)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		if value, ok := strings.CutPrefix(s.Text(), name+" "); ok {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				d.t.Fatal(err)
			}
			return v
		}
	}
	d.t.Fatalf("no metric %s", name)
	return 0
}

// processFigures reads the resources of a process from /proc.
func processFigures(t testing.TB, pid int) (f figures) {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/", pid)
	status, err := os.ReadFile(dir + "status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		fields := strings.Fields(line)
		switch {
		case len(fields) > 1 && fields[0] == "VmRSS:":
			kib, _ := strconv.Atoi(fields[1])
			f.rss = kib << 10
		case len(fields) > 1 && fields[0] == "Threads:":
			f.threads, _ = strconv.Atoi(fields[1])
		}
	}
	fds, err := os.ReadDir(dir + "fd")
	if err != nil {
		t.Fatal(err)
	}
	f.fds = len(fds)
	for _, fd := range fds {
		if to, err := os.Readlink(dir + "fd/" + fd.Name()); err == nil && strings.HasPrefix(to, "/memfd:") {
			f.memfds++
		}
	}
	maps, err := os.ReadFile(dir + "maps")
	if err != nil {
		t.Fatal(err)
	}
	f.maps, f.memfdMaps = bytes.Count(maps, []byte("\n")), bytes.Count(maps, []byte("/memfd:"))
	f.processor = processorTime(t, pid)
	return f
}

// processorTime returns the CPU time of a process.
func processorTime(t testing.TB, pid int) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond // USER_HZ is 100
}

// pids returns lnetd's clients by process ID, with the number of connections of each.
func (d *daemon) pids() map[int]int {
	d.t.Helper()
	all, err := d.control.Clients(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	m := make(map[int]int)
	for _, c := range all.Clients {
		m[int(c.PID)]++
	}
	return m
}

// within waits until f is true.
func within(t testing.TB, limit time.Duration, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !f(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("in vain: %s", what)
		}
	}
}

func freePort(t testing.TB, hosts ...string) int {
	t.Helper()
	port, err := daemontest.FreePort(hosts...)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// telling returns the most useful part of a log: the start of a crash, or otherwise the end.
func telling(log string) string {
	for _, fault := range []string{"\npanic:", "\nfatal error:", "\nunexpected fault", "\nSIG"} {
		if at := strings.Index(log, fault); at >= 0 {
			lines := strings.Split(log[at+1:], "\n")
			return strings.Join(lines[:min(len(lines), 120)], "\n")
		}
	}
	return tail(log, 60)
}

// tail returns the last n lines of a text.
func tail(text string, n int) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
