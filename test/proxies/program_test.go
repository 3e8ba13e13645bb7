package proxies

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/examples/udplnd"
	"github.com/lnetd/lnetd/lnet"
)

// long selects the long form of each test.
var long = flag.Bool("long", false, "the long form of each test")

// patience is the time limit for events that must happen.
const patience = time.Minute

// roleEnv is an environment variable that makes the program a proxy, or lnetd's side of proxies.
const roleEnv = "LNETD_PROXIES_ROLE"

// order is the configuration of a process.
type order struct {
	Role   string
	Socket string // lnetd's for proxies
	NID    string // of the NI that a proxy serves, or of the first NI of a node
	Port   int    // of the driver
	Over   string // the network of the driver: "" for TCP, or "udp"
	Ahead  int    // proxy.Config.MaxAhead
	Kind   string // of a hostile proxy
	PID    lnet.PID
	Seed   uint64
	// Served are the NIDs of further NIs, which proxies serve.
	Served []string
}

// roles are the roles of processes. A process ends when ctx is done, which is when its input ends.
var roles = map[string]func(ctx context.Context, o order) error{
	"proxy":   beProxy,
	"hostile": beHostile,
	"router":  beRouter,
}

// udpNets is the type of nets over UDP, as lnetd's configuration names it too.
var udpNets = lnet.NamedType{Type: udplnd.Type, Name: "udp", IP: true}

func TestMain(m *testing.M) {
	if err := lnet.NameType(udpNets); err != nil {
		panic(err)
	}
	text := os.Getenv(roleEnv)
	if text == "" {
		os.Exit(m.Run())
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	var o order
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = roles[o.Role](ctx, o)
	}
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(3)
	}
	os.Exit(0)
}

// guest is another process.
type guest struct {
	t     testing.TB
	order order
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines chan string // its output lines; closed at its end

	mu  sync.Mutex // guards out
	out []string
}

// enter starts a process that runs until the end of the test.
func enter(t testing.TB, o order) *guest {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	g := &guest{t: t, order: o, cmd: exec.Command(os.Args[0]), lines: make(chan string, 256)}
	g.cmd.Env = append(os.Environ(), roleEnv+"="+string(text))
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if g.stdin, err = g.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	g.cmd.Stdout, g.cmd.Stderr = in, in
	err = g.cmd.Start()
	_ = in.Close()
	if err != nil {
		t.Fatal(err)
	}
	go g.read(out)
	t.Cleanup(g.kill)
	return g
}

func (g *guest) read(out *os.File) {
	defer func() { _ = out.Close() }()
	s := bufio.NewScanner(out)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		g.mu.Lock()
		g.out = append(g.out, s.Text())
		g.out = g.out[max(0, len(g.out)-60):]
		g.mu.Unlock()
		select {
		case g.lines <- s.Text():
		default: // not read
		}
	}
	close(g.lines)
}

// said returns its last output.
func (g *guest) said() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return strings.Join(g.out, "\n")
}

// expect waits for a line with the prefix, and returns the rest of the line.
func (g *guest) expect(prefix string) string {
	g.t.Helper()
	over := time.After(patience)
	for {
		select {
		case line, ok := <-g.lines:
			if !ok {
				g.t.Fatalf("%s %s has ended without %q:\n%s", g.order.Role, g.order.Kind, prefix, g.said())
			}
			if rest, ok := strings.CutPrefix(line, prefix); ok {
				return strings.TrimPrefix(rest, " ")
			}
		case <-over:
			g.t.Fatalf("%s %s has not said %q:\n%s", g.order.Role, g.order.Kind, prefix, g.said())
		}
	}
}

// kill kills the process if it still runs, and waits for its end.
func (g *guest) kill() {
	_ = g.cmd.Process.Kill()
	_ = g.cmd.Wait()
}

// leave makes the process end normally.
func (g *guest) leave() {
	g.t.Helper()
	_ = g.stdin.Close()
	var exit *exec.ExitError
	if err := g.cmd.Wait(); errors.As(err, &exit) {
		g.t.Errorf("%s %s: %v\n%s", g.order.Role, g.order.Kind, err, g.said())
	}
}

// say sends a value to the test.
func say(what string, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	fmt.Println(what, string(text))
}

// within waits until f returns true.
func within(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// rest waits for a while, or until ctx is done.
func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
