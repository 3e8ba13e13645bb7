package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/cmd/internal/cli"
	"github.com/lnetd/lnetd/internal/testing/daemontest"
)

// gate collects the output of a program, and reports when it contains a text.
type gate struct {
	awaits string

	mu   sync.Mutex // guards the rest
	text bytes.Buffer
	seen chan struct{} // closed and set to nil when the text has been written
}

func (g *gate) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n, err := g.text.Write(b)
	if g.seen != nil && strings.Contains(g.text.String(), g.awaits) {
		close(g.seen)
		g.seen = nil
	}
	return n, err
}

// A server ends only by a signal. Its exit status is 0, or 1 if it has counted errors. A client
// that ends by a signal has the signal's status, whatever it has counted, and operations that it
// aborts are not errors.
func TestSignals(t *testing.T) {
	port, err := daemontest.FreePort("127.0.0.2", "127.0.0.3")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		args   string // of the interrupted program
		awaits string // on its stderr
		client string // command that runs first
		want   int
		prints string
	}{
		{"server", "-s --until-signal -I 127.0.0.2@tcp", "ready", "", exitOK, "Errors: 0,"},
		{"server with errors", "-s --until-signal -I 127.0.0.2@tcp -O 0.000000001", "ready", "-c -i 127.0.0.3@tcp -I 127.0.0.2@tcp -O 0.1 -o 5", exitFailure, "Errors: 2,"},
		{"client with errors", "-c -i 127.0.0.3@tcp -I 127.0.0.3@tcp -o 0.1 -O 1000", "loop 0: ping", "", cli.Interrupted{Signal: syscall.SIGINT}.Status(), "Errors: 1,"},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen := make(chan struct{})
			var out bytes.Buffer
			errors := &gate{awaits: c.awaits, seen: seen}
			p := &program{stdin: strings.NewReader(""), stdout: &out, stderr: errors}
			run := func(p *program, args string) int {
				return p.run(append([]string{"ping", "--port", fmt.Sprint(port)}, strings.Fields(args)...))
			}
			status := make(chan int)
			go func() { status <- run(p, c.args) }()
			<-seen
			if c.client != "" {
				if got := run(&program{stdout: io.Discard, stderr: io.Discard}, c.client); got != exitFailure {
					t.Errorf("the client ends with %d", got)
				}
			}
			if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			if got := <-status; got != c.want || !strings.Contains(out.String(), c.prints) {
				t.Errorf("it ends with %d, not %d, and prints\n%s\n%s", got, c.want, out.String(), errors.text.String())
			}
		})
	}
}

// full is a disk without free space.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// If output cannot be printed, that is a failure, also for tables.
func TestFullDisk(t *testing.T) {
	for _, args := range []string{
		"ping --transport mem", "console --transport mem -t ping -n 1 -s 32 --local 1x1", "console --transport mem -l", "ping --help",
	} {
		var errors gate
		p := &program{stdin: strings.NewReader(""), stdout: full{}, stderr: &errors}
		if got := p.run(strings.Fields(args)); got != exitFailure || !strings.Contains(errors.text.String(), "no space left") {
			t.Errorf("%s: it ends with %d, and says %s", args, got, errors.text.String())
		}
	}
}
