package process

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// Patience is the time limit for what a process has to do, unless the test sets another one.
	Patience = time.Minute
	// kept is the number of the last lines that Output returns.
	kept = 60
)

// Process is a program that runs beside a test. Its standard output and standard error are read as lines. When the
// test ends, a process that still runs is killed.
type Process struct {
	// Stdin is its standard input.
	Stdin io.WriteCloser
	// Patience is the time limit for what it has to do: the constant, unless the test sets another one.
	Patience time.Duration

	t     testing.TB
	name  string
	cmd   *exec.Cmd
	lines chan string   // its output; closed at its end
	ended chan struct{} // closed when it has ended
	err   error         // the result of Wait; valid when ended is closed

	mu   sync.Mutex // guards last
	last []string   // the last lines
}

// Start starts a command; its name is for messages of the test. If the test process dies, the process gets the signal
// of cmd.SysProcAttr, or SIGKILL if that is nil.
func Start(t testing.TB, name string, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{
		Patience: Patience, t: t, name: name, cmd: cmd, lines: make(chan string, 256), ended: make(chan struct{}),
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	}
	// Its children inherit these pipes. They must not keep cmd.Wait from returning, and can be talked with when the
	// process has ended.
	commands, stdin := pipe(t)
	out, answers := pipe(t)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = commands, answers, answers
	err := cmd.Start()
	_, _ = commands.Close(), answers.Close()
	if err != nil {
		_, _ = stdin.Close(), out.Close()
		t.Fatal(err)
	}
	p.Stdin = stdin
	go p.read(out)
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.Kill()
		_ = stdin.Close()
	})
	return p
}

func pipe(t testing.TB) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return r, w
}

func (p *Process) read(out *os.File) {
	defer func() { _ = out.Close() }()
	s := bufio.NewScanner(out)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		p.mu.Lock()
		p.last = append(p.last, s.Text())
		p.last = p.last[max(0, len(p.last)-kept):]
		p.mu.Unlock()
		select {
		case p.lines <- s.Text():
		default: // the test does not read them
		}
	}
	close(p.lines)
}

// Output returns the last lines that the process has printed, at most 60.
func (p *Process) Output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.last, "\n")
}

// Expect waits for a line with the prefix and returns the rest of the line. It ends the test if the process ends or
// fails before, and after Patience.
func (p *Process) Expect(prefix string) string {
	p.t.Helper()
	line := p.await(prefix, func(line string) bool { return strings.HasPrefix(line, prefix) })
	return strings.TrimPrefix(line[len(prefix):], " ")
}

// ExpectText is like Expect, for a line that contains the text, and returns the line.
func (p *Process) ExpectText(text string) string {
	p.t.Helper()
	return p.await(text, func(line string) bool { return strings.Contains(line, text) })
}

func (p *Process) await(what string, is func(line string) bool) string {
	p.t.Helper()
	over := time.After(p.Patience)
	for {
		select {
		case line, ok := <-p.lines:
			switch {
			case !ok:
				p.t.Fatalf("%s has ended, and has not said %q:\n%s", p.name, what, p.Output())
			case is(line):
				return line
			case strings.HasPrefix(line, failed):
				p.t.Fatalf("%s: %s", p.name, line)
			}
		case <-over:
			p.t.Fatalf("%s has not said %q:\n%s", p.name, what, p.Output())
		}
	}
}

// ExpectInto is like Expect, for a line of Say, whose value it decodes into v.
func (p *Process) ExpectInto(prefix string, v any) {
	p.t.Helper()
	if text := p.Expect(prefix); json.Unmarshal([]byte(text), v) != nil {
		p.t.Fatalf("%s says %s %q", p.name, prefix, text)
	}
}

// Ask sends a command to the process and returns the rest of its answer, a line with the prefix.
func (p *Process) Ask(command, prefix string) string {
	p.t.Helper()
	p.tell(command)
	return p.Expect(prefix)
}

// AskInto is like Ask, for an answer of Say, whose value it decodes into v.
func (p *Process) AskInto(command, prefix string, v any) {
	p.t.Helper()
	p.tell(command)
	p.ExpectInto(prefix, v)
}

func (p *Process) tell(command string) {
	p.t.Helper()
	if _, err := io.WriteString(p.Stdin, command+"\n"); err != nil {
		p.t.Fatalf("%s: %v\n%s", p.name, err, p.Output())
	}
}

// Forget drops the lines that were not yet expected.
func (p *Process) Forget() {
	for {
		select {
		case _, ok := <-p.lines:
			if !ok {
				return
			}
		default:
			return
		}
	}
}

// PID returns its process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Running reports whether the process has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Signal sends it a signal. It ends the test if the process has ended.
func (p *Process) Signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("%s: %v\n%s", p.name, err, p.Output())
	}
}

// Kill kills the process if it still runs, and returns when the kernel has released its resources. The error is that
// of a process that had already ended, with a status other than 0.
func (p *Process) Kill() error {
	_ = p.cmd.Process.Kill()
	<-p.ended
	if exit := (*exec.ExitError)(nil); errors.As(p.err, &exit) && exit.ExitCode() >= 0 {
		return p.err
	}
	return nil
}

// Rest waits for the end of the output and returns the lines that were not expected. It ends the test if the process
// prints nothing for Patience.
func (p *Process) Rest() []string {
	p.t.Helper()
	var rest []string
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				return rest
			}
			rest = append(rest, line)
		case <-time.After(p.Patience):
			p.t.Fatalf("%s does not end:\n%s", p.name, p.Output())
		}
	}
}

// Wait waits until the process has ended by itself and its output was read, and returns its result. It ends the test
// if the process prints nothing for Patience and does not end.
func (p *Process) Wait() error {
	p.t.Helper()
	p.Rest()
	select {
	case <-p.ended:
	case <-time.After(p.Patience):
		p.t.Fatalf("%s does not end:\n%s", p.name, p.Output())
	}
	return p.err
}

// Leave closes the standard input of the process and waits for its end, with status 0.
func (p *Process) Leave() {
	p.t.Helper()
	_ = p.Stdin.Close()
	if err := p.Wait(); err != nil {
		p.t.Errorf("%s: %v\n%s", p.name, err, p.Output())
	}
}
