package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
	"github.com/lnetd/lnetd/internal/testing/daemontest"
)

// reloads is the number of reloads during the traffic.
const reloads = 30

// SIGHUP changes only what differs: while NIs, routes, peers and values are added, removed and
// changed, no message of an NI that stays fails.
func TestReloadUnderTraffic(t *testing.T) {
	dir := t.TempDir()
	if err := daemontest.Build(dir); err != nil {
		t.Fatal(err)
	}
	port, err := daemontest.FreePort("127.0.0.1", "127.0.0.2", "127.0.1.1")
	if err != nil {
		t.Fatal(err)
	}
	const mine = "net: [{net type: tcp, nid: 127.0.0.1@tcp}]\n"
	const more = mine + `
net: [{net type: tcp1, nid: 127.0.1.1@tcp1}]
route: [{net: tcp7, gateway: 127.0.1.9@tcp1}, {net: tcp8, gateway: 127.0.0.9@tcp}]
peer: [{primary nid: 127.0.0.8@tcp, peer ni: [{nid: 127.0.1.8@tcp1}]}]
udsp: [{idx: 0, src: tcp, priority: 3}]
global: {numa_range: 7, max_interfaces: 100}
`
	file := filepath.Join(dir, "a.yaml")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(file, mine)
	start := func(name, file string) *daemontest.Process {
		socket := filepath.Join(dir, name+".sock")
		return daemontest.Run(t, daemontest.Launch{
			Name: name, Programs: dir, Socket: socket,
			Command: []string{filepath.Join(dir, "lnetd"), "--port", strconv.Itoa(port), "--control-socket", socket, "--config", file},
		})
	}
	a := start("a", file)
	other := filepath.Join(dir, "b.yaml")
	write(other, "net: [{net type: tcp, nid: 127.0.0.2@tcp}]\n")
	b := start("b", other)

	traffic, enough := startPings(t, b.Socket, "127.0.0.1@tcp")
	for k := range reloads {
		write(file, []string{more, mine}[k%2])
		if err := a.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		reloaded(t, a.Log, k+1)
		has := a.Must(t, "net", "show")
		if strings.Contains(has, "127.0.1.1@tcp1") != (k%2 == 0) {
			t.Fatalf("reload %d: %s", k, has)
		}
	}
	enough()
	if sent, err := traffic(); err != nil || sent < reloads {
		t.Errorf("%d pings, %v", sent, err)
	}
	b.Stop(t)
	a.Stop(t)
}

// startPings makes a daemon ping a node repeatedly until enough is called. result returns how many
// pings were answered, and the errors of the others.
func startPings(t *testing.T, socket, target string) (result func() (int, error), enough func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var mu sync.Mutex
	var answered int
	var errs []error
	for range 4 {
		wg.Go(func() {
			c := client.New(socket)
			defer c.Close()
			for ctx.Err() == nil {
				got, err := c.Ping(t.Context(), api.PingRequest{NIDs: []string{target}})
				if err == nil && got[0].Error != nil {
					err = got[0].Error
				}
				mu.Lock()
				if err != nil {
					errs = append(errs, err)
					mu.Unlock()
					return
				}
				answered++
				mu.Unlock()
			}
		})
	}
	return func() (int, error) { wg.Wait(); return answered, errors.Join(errs...) }, cancel
}

// reloaded waits until lnetd has reported n reloads.
func reloaded(t *testing.T, log *daemontest.Log, n int) {
	t.Helper()
	daemontest.Within(t, time.Minute, "reload", func() error {
		said := log.String()
		if strings.Contains(said, "was not reloaded") || strings.Contains(said, "reload failed") || strings.Contains(said, "need a restart") {
			t.Fatalf("reload %d failed", n)
		}
		if strings.Count(said, "configuration reloaded") < n {
			return fmt.Errorf("not reloaded %d times", n)
		}
		return nil
	})
}
