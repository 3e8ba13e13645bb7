//go:build mpi && cgo

package mpi

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// running is a job that runs beside the test.
type running struct {
	t     testing.TB
	cmd   *exec.Cmd
	lines chan string   // its output lines; closed at its end
	ended chan struct{} // closed when it has ended
	err   error         // its result

	mu  sync.Mutex // guards the rest
	out []string   // the last lines
}

// start starts a job of ranks with an order, and of other programs in words, which begin with ":".
func (l library) start(t testing.TB, ranks string, o order, words ...string) *running {
	t.Helper()
	o.Limit = cmp.Or(o.Limit, limit)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return l.with(rankEnv+"="+o.String()).launch(t, o.Limit, append([]string{"-n", ranks, program}, words...)...)
}

// launch starts a job that may take as long as most.
func (l library) launch(t testing.TB, most time.Duration, words ...string) *running {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), most)
	j := &running{t: t, cmd: l.command(ctx, words...), lines: make(chan string, 256), ended: make(chan struct{})}
	j.cmd.Env = append(j.cmd.Env, "GORACE=atexit_sleep_ms=0")
	j.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	j.cmd.Stdout, j.cmd.Stderr = in, in
	err = j.cmd.Start()
	_ = in.Close()
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		j.read(out)
		close(read)
	}()
	go func() {
		j.err = j.cmd.Wait()
		close(j.ended)
	}()
	t.Cleanup(func() {
		cancel()
		<-j.ended
		<-read
	})
	return j
}

func (j *running) read(out *os.File) {
	defer func() { _ = out.Close() }()
	s := bufio.NewScanner(out)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		j.mu.Lock()
		j.out = append(j.out, s.Text())
		j.out = j.out[max(0, len(j.out)-60):]
		j.mu.Unlock()
		select {
		case j.lines <- s.Text():
		default: // not read
		}
	}
	close(j.lines)
}

// printed returns its last output.
func (j *running) printed() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.out, "\n")
}

// await waits until each of n ranks has said something, and returns it by rank.
func (j *running) await(what string, n int) map[int]said {
	j.t.Helper()
	return j.awaitWithin(patience, what, n)
}

func (j *running) awaitWithin(most time.Duration, what string, n int) map[int]said {
	j.t.Helper()
	all := make(map[int]said)
	over := time.After(most)
	for len(all) < n {
		select {
		case line, ok := <-j.lines:
			if !ok {
				j.t.Fatalf("the job has ended before %d ranks were %s:\n%s", n, what, j.printed())
			}
			if rest, ok := strings.CutPrefix(line, what+" "); ok {
				var s said
				if err := json.Unmarshal([]byte(rest), &s); err != nil {
					j.t.Fatalf("%q: %v", line, err)
				}
				all[s.Rank] = s
			}
		case <-over:
			j.t.Fatalf("only %d ranks are %s:\n%s", len(all), what, j.printed())
		}
	}
	return all
}

// end waits for the end of the job, and returns its result.
func (j *running) end() error {
	j.t.Helper()
	select {
	case <-j.ended:
	case <-time.After(patience):
		j.t.Fatalf("the job does not end within %s:\n%s", patience, j.printed())
	}
	return j.err
}
