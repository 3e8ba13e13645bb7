//go:build mpi && cgo

package mpi

import (
	"cmp"
	"os"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/process"
)

// running is a job that runs beside the test: its mpirun, with the output of all ranks.
type running struct {
	*process.Process
	t *testing.T
}

// start starts a job of ranks with an order, and of other programs in words, which begin with ":".
func (l library) start(t *testing.T, ranks string, o order, words ...string) *running {
	t.Helper()
	o.Limit = cmp.Or(o.Limit, limit)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return l.with(process.Order(t, rankEnv, o)).launch(t, append([]string{"-n", ranks, program}, words...)...)
}

// launch starts a job.
func (l library) launch(t *testing.T, words ...string) *running {
	t.Helper()
	c := l.command(t.Context(), words...)
	c.Env = append(c.Env, "GORACE=atexit_sleep_ms=0")
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	return &running{process.Start(t, l.mpirun, c), t}
}

// await waits until each of n ranks has said something, and returns it by rank.
func (j *running) await(what string, n int) map[int]said {
	j.t.Helper()
	all := make(map[int]said)
	for len(all) < n {
		var s said
		j.ExpectInto(what, &s)
		all[s.Rank] = s
	}
	return all
}
