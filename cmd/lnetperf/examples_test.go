//go:build !race

// The programs that these tests run are built without the race detector, so .ci/run runs the tests once, without it.

package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/testing/daemontest"
	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// exampleTime is the time limit of one example.
const exampleTime = 5 * time.Minute

// short shortens a measurement.
const short = " --time 1ms"

// traceShort shortens "lnetperf trace".
const traceShort = " --requests 5 --port PORT"

// exampleRuns defines how the examples of the help are run. They run unchanged, except for
// addresses, ports and sockets of the test.
var exampleRuns = map[string]struct {
	beside []string // lines that run at the same time, until their standard input ends or SIGINT comes
	server bool     // the example itself is such a line
	extra  string   // additional options of the line
	traces bool     // the line records what the kernel does, which may not be permitted
}{
	"lnetperf ping -l 3":                                                       {},
	"lnetperf ping --transport mem -d 1M -n 8 -l 100":                          {},
	"lnetperf ping -i 127.0.0.2@tcp -I 127.0.0.3@tcp -l 1000 -q --json":        {extra: " --port PORT"},
	"lnetperf ping -s -I 10.0.0.1@tcp":                                         {server: true, extra: " --port PORT"},
	"lnetperf ping -c -I 10.0.0.1@tcp -n 4 -d 64K":                             {beside: []string{"lnetperf ping -s -I 10.0.0.1@tcp --port PORT"}, extra: " --port PORT -i 127.0.0.3@tcp"},
	"lnetperf ping --through /run/lnetd/lnetd.sock -l 1000 --delivery poll -q": {},

	"lnetperf node -a 10.0.0.1@tcp:12345:42:300":                                          {server: true, extra: " --port PORT"},
	"lnetperf node -a 10.0.0.1@tcp:12345:42:300 --through /run/lnetd/lnetd.sock":          {server: true},
	"lnetperf node -a 10.0.0.1@tcp:12345:42:300 -c 10.0.0.9@tcp:12345:42:298 --once -v 1": {server: true, extra: " --port PORT"},

	"lnetperf console -t ping -n 100000 -s 4K --local 1x1": {},
	"lnetperf console -t bulk -n 64 -s 1M -B 32 -b 16 -f 16K -g 8 --verify --local 2x2 --client-nid 127.0.0.2@tcp --server-nid 127.0.0.3@tcp": {extra: " --port PORT"},
	"lnetperf console -t ping -T 5 -s 4K -C 10.0.0.1@tcp:12345:42:326 -D 10.0.0.1@tcp:12345:42:334 -c 10.0.0.2@tcp:12345:42:300 -d 10.0.0.2@tcp:12345:42:318": {
		beside: []string{
			"lnetperf node -a 10.0.0.1@tcp:12345:42:326 --port PORT",
			"lnetperf node -a 10.0.0.2@tcp:12345:42:300 --port PORT",
		},
		extra: " --port PORT -A 10.0.0.9@tcp:12345:42:299",
	},

	"lnetperf crowd":                        {extra: short + " --rounds 1 --peers 20 --port PORT"},
	"lnetperf crowd --peers 100 --rounds 5": {extra: short + " --port PORT"},
	"GOMAXPROCS=1 lnetperf crowd --json":    {extra: short + " --rounds 1 --peers 20 --port PORT"},

	"lnetperf scale":                {extra: " --peers 20 --port PORT"},
	"lnetperf scale --peers 50,100": {extra: " --port PORT"},
	"lnetperf scale --peers 100 --set accept_backlog=127 --json": {extra: " --port PORT"},
	"lnetperf scale --router --peers 50 --servers 5":             {extra: " --port PORT"},

	"lnetperf report compare.json":                               {},
	"lnetperf report --output pictures compare.json hosted.json": {},
	"lnetperf report --markdown compare.json":                    {},

	"lnetperf trace": {extra: traceShort, traces: true},
	"lnetperf trace --only 'one lnetd' --apart": {extra: traceShort, traces: true},
	"lnetperf trace --delivery async --json":    {extra: traceShort, traces: true},
	"lnetperf trace --stacked --svg trace.svg":  {extra: traceShort, traces: true},

	"lnetperf compare": {extra: short + " --rounds 1 --port PORT --only 'PUT.ACK 96 B'"},
	"lnetperf compare --only 'PUT 1 MiB' --rounds 5":                                       {extra: short + " --port PORT"},
	"lnetperf compare --only 'TM' --apart --cpuprofile cpu.out":                            {extra: short + " --rounds 1 --port PORT"},
	"lnetperf compare --only 'caller blocks' --against GOMAXPROCS=1":                       {extra: short + " --rounds 1 --port PORT"},
	"lnetperf compare --only '64 in flight' --against eager_ack=7 --against min_bulk=4096": {extra: short + " --rounds 1 --port PORT"},
	"lnetperf compare --only '64 in flight' --baseline /usr/bin/lnetperf":                  {extra: short + " --rounds 1 --port PORT"},
	"lnetperf compare --json --rounds 9":                                                   {extra: short + " --port PORT --only 'PUT.ACK 96 B'"},
	"lnetperf compare --hosted --stacked --only notified":                                  {extra: short + " --rounds 1"},
}

// Given the examples of every command's help, which are also on the manual page, each does its work
// when it is executed.
func TestExamples(t *testing.T) {
	e := newExamples(t)
	var all []string
	var gather func(c *cobra.Command)
	gather = func(c *cobra.Command) {
		for line := range strings.Lines(c.Example) {
			all = append(all, strings.TrimSpace(line))
		}
		for _, sub := range c.Commands() {
			gather(sub)
		}
	}
	gather((&program{stdout: io.Discard}).commands())
	if len(all) != len(exampleRuns) {
		t.Errorf("the help has %d examples, the table %d", len(all), len(exampleRuns))
	}
	for _, line := range all {
		t.Run(line, func(t *testing.T) {
			t.Parallel() // mostly waits
			run, ok := exampleRuns[line]
			if !ok {
				t.Fatal("exampleRuns does not have it")
			}
			port := e.ports()
			for _, l := range run.beside {
				e.serve(t, port, l)
			}
			if run.server {
				e.serve(t, port, line+run.extra)
				return
			}
			ctx, cancel := context.WithTimeout(t.Context(), exampleTime)
			defer cancel()
			out, err := e.shell(ctx, port, line+run.extra).CombinedOutput()
			if run.traces && refusesTrace(string(out)) {
				return
			}
			var exit *exec.ExitError
			if errors.As(err, &exit) && exit.ExitCode() == exitMissed { // depends on the machine
				return
			}
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// examples runs lines as a shell does.
type examples struct {
	*comparison
	dir    string // working directory
	socket string // socket of an lnetd for programs
}

func newExamples(t *testing.T) *examples {
	t.Helper()
	dir := t.TempDir()
	e := &examples{newComparison(t), dir, filepath.Join(dir, "lnetd.sock")}
	if err := daemontest.Build(dir); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "lnetd.yaml")
	if err := os.WriteFile(config, []byte("lnetd: {transport: {socket: "+e.socket+"}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, os.DirFS("../../docs/performance")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "pictures"), 0o755); err != nil {
		t.Fatal(err)
	}
	control := filepath.Join(dir, "control.sock")
	daemontest.Run(t, daemontest.Launch{
		Name: "lnetd", Programs: dir, Socket: control,
		Command: []string{
			filepath.Join(dir, "lnetd"), "--config", config, "--control-socket", control,
			"--net", "127.0.0.2@tcp", "--port", strconv.Itoa(e.ports()),
		},
	})
	return e
}

// shell returns the command of a line, with addresses of the test and a shorter time.
func (e *examples) shell(ctx context.Context, port int, line string) *exec.Cmd {
	line = strings.NewReplacer(
		"10.0.0.1@", "127.0.0.2@", "10.0.0.2@", "127.0.0.3@", "10.0.0.9@", "127.0.0.4@", "-T 5", "-T 1",
		"/run/lnetd/lnetd.sock", e.socket, "/usr/bin/lnetperf", e.bin, "PORT", strconv.Itoa(port),
	).Replace(line)
	c := exec.CommandContext(ctx, "sh", "-c", strings.Replace(line, "lnetperf ", e.bin+" ", 1))
	c.Env = os.Environ()
	c.Dir = e.dir
	return c
}

// serve runs a line until the test ends. Then its standard input ends and SIGINT comes, and it must
// succeed. serve returns when the line has reported that it is ready.
func (e *examples) serve(t *testing.T, port int, line string) {
	t.Helper()
	notify, err := daemontest.NewNotify(filepath.Join(testenv.SocketDir(t), "notify"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = notify.Close() }()
	c := e.shell(context.Background(), port, "exec "+line)
	c.Env = append(c.Env, notify.Env())
	var out daemontest.Log
	c.Stdout, c.Stderr = &out, &out
	stdin, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = c.Process.Signal(os.Interrupt) // it may have ended by now
		if err := c.Wait(); err != nil {
			t.Errorf("%s: %v\n%s", line, err, &out)
		}
	})
	if err := notify.Await("READY=1", exampleTime); err != nil {
		t.Fatalf("%s: %v\n%s", line, err, &out)
	}
}
