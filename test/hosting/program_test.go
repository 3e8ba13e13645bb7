package hosting

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
)

// long selects the long form of each campaign.
var long = flag.Bool("long", false, "the long form of each campaign")

// roleEnv is an environment variable that makes the program a client.
const roleEnv = "LNETD_HOSTING_ROLE"

// order is the configuration of a client.
type order struct {
	Role   string
	Socket string // lnetd's
	At, To string // addresses of its TM, and of its peer
	ID     int
	Seed   uint64
	File   string
	Kind   string
	Pause  time.Duration
}

// roles are the roles of clients. A client prints "up" when it is ready, and exits when its input
// ends.
var roles = map[string]func(ctx context.Context, o order, in *bufio.Scanner) error{
	"echo":    beEcho,
	"ping":    bePing,
	"worker":  beWorker,
	"server":  beServer,
	"victim":  beVictim,
	"hostile": runHostile,
	"waiter":  awaitRestart,
	"greedy":  exhaustQuota,
	"glutton": queueWithoutReading,
	"forker":  beForker,
	"chatter": exchangeMessages,
	"crowd":   holdIdleDomains,
}

func TestMain(m *testing.M) {
	if text := os.Getenv(roleEnv); text != "" {
		if err := play(text); err != nil {
			fmt.Println("failed:", err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	flag.Parse()
	status := m.Run()
	lnetd.forget()
	racy.forget()
	library.forget()
	os.Exit(status)
}

func play(text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	role := roles[o.Role]
	if role == nil {
		return fmt.Errorf("no role %q", o.Role)
	}
	return role(context.Background(), o, bufio.NewScanner(os.Stdin))
}

// guest is a client process.
type guest struct {
	t     testing.TB
	order order
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines chan string // its output lines; closed at its end

	mu  sync.Mutex // guards said
	out []string
}

// enter starts a client that runs until the end of the test, and waits until it is up.
func enter(t testing.TB, o order) *guest {
	t.Helper()
	g := begin(t, o)
	g.expect("up")
	return g
}

// begin starts a client.
func begin(t testing.TB, o order) *guest {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"="+string(text))
	return run(t, o, cmd)
}

// run starts a program that is a client.
func run(t testing.TB, o order, cmd *exec.Cmd) *guest {
	t.Helper()
	g := &guest{t: t, order: o, cmd: cmd, lines: make(chan string, 256)}
	var err error
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if g.stdin, err = g.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	// Children of a client inherit the pipe and must not keep Wait from returning.
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
	t.Cleanup(func() { _ = g.kill() })
	return g
}

func (g *guest) read(out *os.File) {
	defer func() { _ = out.Close() }()
	s := bufio.NewScanner(out)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		g.mu.Lock()
		g.out = append(g.out, s.Text())
		g.mu.Unlock()
		select {
		case g.lines <- s.Text():
		default: // not read
		}
	}
	close(g.lines)
}

// said returns all output so far.
func (g *guest) said() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return tail(strings.Join(g.out, "\n"), 40)
}

// expect waits for a line with the prefix, and returns the rest of the line.
func (g *guest) expect(prefix string) string {
	g.t.Helper()
	over := time.After(patience)
	for {
		select {
		case line, ok := <-g.lines:
			if !ok {
				g.t.Fatalf("%s %d has ended, and has not said %q:\n%s", g.order.Role, g.order.ID, prefix, g.said())
			}
			if rest, ok := strings.CutPrefix(line, prefix); ok {
				return strings.TrimPrefix(rest, " ")
			}
			if strings.HasPrefix(line, "failed:") {
				g.t.Fatalf("%s %d: %s", g.order.Role, g.order.ID, line)
			}
		case <-over:
			g.t.Fatalf("%s %d has not said %q:\n%s", g.order.Role, g.order.ID, prefix, g.said())
		}
	}
}

// forget drops the lines that were not yet read.
func (g *guest) forget() {
	for {
		select {
		case <-g.lines:
		default:
			return
		}
	}
}

// ask sends a command to the client and returns its answer.
func (g *guest) ask(command, answer string) string {
	g.t.Helper()
	if _, err := io.WriteString(g.stdin, command+"\n"); err != nil {
		g.t.Fatalf("%s %d: %v\n%s", g.order.Role, g.order.ID, err, g.said())
	}
	return g.expect(answer)
}

// askInto is like ask, for an answer in JSON.
func (g *guest) askInto(command, answer string, v any) {
	g.t.Helper()
	if text := g.ask(command, answer); json.Unmarshal([]byte(text), v) != nil {
		g.t.Fatalf("%s says %q", g.order.Role, text)
	}
}

func (g *guest) pid() int { return g.cmd.Process.Pid }

// kill kills the client if it still runs, and returns when the kernel has released its resources.
func (g *guest) kill() error {
	_ = g.cmd.Process.Kill()
	_ = g.stdin.Close()
	err := g.cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() >= 0 {
		return err // it has ended unexpectedly with an error
	}
	return nil
}

// wait waits until the client has ended by itself, and for its last line.
func (g *guest) wait() error {
	err := g.cmd.Wait()
	for range g.lines {
	}
	return err
}

// leave makes the client end normally.
func (g *guest) leave() {
	g.t.Helper()
	_ = g.stdin.Close()
	if err := g.wait(); err != nil {
		g.t.Errorf("%s %d: %v\n%s", g.order.Role, g.order.ID, err, g.said())
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
