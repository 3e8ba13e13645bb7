//go:build mpi && cgo

package mpi

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

var (
	messages = flag.Int("messages", 4000, "number of messages that TestMemory passes through the proxy with each library")
	idle     = flag.Duration("idle", 0, "time for which TestMemory measures an idle proxy; 0: it does not")
)

// A proxy has no more memory after all messages than after the first tenth of them: it keeps nothing of a message. With
// -idle, it then uses less than 2 % of a processor.
//
// PT-7, MPI-26
func TestMemory(t *testing.T) {
	built(t)
	onLibraries(t, func(t *testing.T, l library) {
		const ranks = 2
		// Garbage that was not yet collected differs by some MiB. One word of each of a million messages is 8 MiB.
		const noise = 6 << 20
		s := newSite(t, 1)
		o := s.order("flood")
		o.Pings, o.Limit = *messages/ranks/2, limit+time.Duration(*messages)*time.Millisecond // a ping is two messages
		j := l.start(t, fmt.Sprint(ranks), o, s.proxies()...)
		j.Patience = o.Limit
		j.await("warm", ranks)
		proxy := j.proxy()
		before := memory(t, proxy)
		done := j.await("done", ranks)
		after := memory(t, proxy)
		t.Logf("%s: after %d of %d messages the proxy has %d KiB, after all of them %d KiB", l.kind, *messages/warmth, *messages, before>>10, after>>10)
		if after > before+noise {
			t.Errorf("the memory of the proxy grows from %d bytes to %d", before, after)
		}
		if *idle > 0 {
			checkIdle(t, l, proxy)
		}
		s.stopLoad(done)
		if err := j.Wait(); err != nil {
			t.Errorf("%v\n%s", err, j.Output())
		}
	})
}

// warmth is the part of the pings after which ranks are warm.
const warmth = 10

// flood pings the proxies as often as the order says, some at a time, and waits for a message of endSize.
func flood(ctx context.Context, r *rank) error {
	if err := pingAll(ctx, r, r.order.Pings/warmth); err != nil {
		return err
	}
	say("warm", r.Self())
	if err := pingAll(ctx, r, r.order.Pings-r.order.Pings/warmth); err != nil {
		return err
	}
	say("done", r.Self())
	return untilEnd(ctx, r.inbox)
}

// pingAll pings the proxies n times.
func pingAll(ctx context.Context, r *rank, n int) error {
	const atOnce = 16
	turns := make(chan lnet.ProcessID)
	failures := make([]error, atOnce)
	var all sync.WaitGroup
	for k := range atOnce {
		all.Go(func() {
			for to := range turns {
				if _, err := r.Node().Ping(ctx, to, node.PingOptions{}); err != nil {
					failures[k] = err
				}
			}
		})
	}
	for range n {
		for _, m := range r.Members() {
			if m.Proxy {
				turns <- lnet.ProcessID{NID: m.NID, PID: m.PID}
			}
		}
	}
	close(turns)
	all.Wait()
	return errors.Join(failures...)
}

// proxy returns the PID of the job's proxy.
func (j *running) proxy() int {
	j.t.Helper()
	for _, p := range descendants(j.t, j.PID()) {
		if p.name == "lnet-mpi-proxy" {
			return p.pid
		}
	}
	j.t.Fatalf("no proxy runs:\n%s", j.Output())
	return 0
}

// memory returns the private memory of a process in bytes.
func memory(t testing.TB, pid int) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var kib int
		if n, _ := fmt.Sscanf(line, "RssAnon: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	t.Fatalf("no RssAnon in %s", text)
	return 0
}

// checkIdle measures a proxy whose application does nothing.
func checkIdle(t *testing.T, l library, pid int) {
	t.Helper()
	const most = 2 // percent of a processor
	before := processorTime(t, pid)
	<-time.After(*idle)
	part := 100 * (processorTime(t, pid) - before).Seconds() / idle.Seconds()
	t.Logf("an idle proxy of %s uses %.1f %% of a processor", l.kind, part)
	if part >= most {
		t.Errorf("that is not below %d %%", most)
	}
}

// processorTime returns the time for which processors have run a process.
func processorTime(t testing.TB, pid int) time.Duration {
	t.Helper()
	const tick = 10 * time.Millisecond // the unit in /proc
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		t.Fatal(err)
	}
	// PID (NAME) STATE ..., and the times of user and system are the fields 14 and 15
	f := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	var total time.Duration
	for _, field := range f[11:13] {
		n, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		total += time.Duration(n) * tick
	}
	return total
}
