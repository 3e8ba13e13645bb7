package rdma

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/daemontest"
)

// patience is the time limit for an operation without obstacles on a machine that is busy or
// emulated.
const patience = 2 * time.Minute

// Given two nodes over RDMA, when they ping and discover each other, and one writes and reads data
// of the other, small and large, then all of it arrives unchanged.
func TestTwoNodesOnDevices(t *testing.T) {
	at := addresses(t, 2)
	a, b := start(t, "", at[0]+"@o2ib"), start(t, "", at[1]+"@o2ib")
	a.wantPing(t, b)
	b.wantPing(t, a)
	a.wantDiscover(t, b)
	b.wantDiscover(t, a)
	a.wantLoad(t, b, "--ping")
	for _, size := range []string{"4K", "1M"} {
		a.wantLoad(t, b, "--size", size, "--check", "full", "--write")
		a.wantLoad(t, b, "--size", size, "--check", "full")
	}
	a.wantMetrics(t, at[0], "\nlnet_lnd_rdma_gets_total{", "\nlnet_rdma_port_statistic{port=\"1\",rdma_device=\"rxe0\",statistic=")
	a.Stop(t)
	b.Stop(t)
}

// Given two nodes with traffic, when one is killed and restarted, then the traffic recovers too.
func TestRestartOnDevices(t *testing.T) {
	at := addresses(t, 2)
	a, b := start(t, "", at[0]+"@o2ib"), start(t, "", at[1]+"@o2ib")
	a.wantLoad(t, b, "--size", "1M", "--check", "full", "--write")
	b.Kill(t)
	if out, status := a.Ctl(t, "ping", "--timeout", "2", b.nids[0]); status == 0 {
		t.Errorf("the dead node answers: %s", out)
	}
	b.restart(t)
	daemontest.Within(t, patience, "ping", func() error { return a.ping(t, b) })
	b.wantPing(t, a)
	a.wantLoad(t, b, "--size", "1M", "--check", "full", "--write")
	b.wantLoad(t, a, "--size", "4K", "--check", "full")
}

// Given a node over RDMA, another one over TCP, and a router that has both, when they ping each
// other and exchange data, then the data arrives.
func TestRouterOnDevices(t *testing.T) {
	at := addresses(t, 3)
	route := func(net, gateway string) string {
		return "route:\n    - net: " + net + "\n      gateway: " + gateway + "\n"
	}
	start(t, "routing:\n    enable: 1\nbuffers: {tiny: 64, small: 64, large: 16}\n", at[1]+"@o2ib", at[1]+"@tcp")
	a := start(t, route("tcp", at[1]+"@o2ib"), at[0]+"@o2ib")
	b := start(t, route("o2ib", at[1]+"@tcp"), at[2]+"@tcp")
	daemontest.Within(t, patience, "ping through the router", func() error { return a.ping(t, b) })
	b.wantPing(t, a)
	a.wantLoad(t, b, "--size", "1M", "--check", "full", "--write")
	a.wantLoad(t, b, "--size", "1M", "--check", "full")
}

// Given transfer machines on two nodes over RDMA in one process, when they exchange messages and
// bulk, then all of it arrives unchanged, directly from and into the program's memory.
//
// transport 10.1 steps
// r.M0.net.ib
func TestTransferMachinesOnDevices(t *testing.T) {
	at := addresses(t, 2)
	for _, size := range []string{"64", "64K", "1M"} {
		out, err := tryProgram(t, "lnetperf", "ping", "--port", fmt.Sprint(service), "-i", at[0]+"@o2ib", "-I", at[1]+"@o2ib",
			"-n", "2", "-l", "10", "-d", size, "-o", "60", "-O", "60")
		if err != nil {
			t.Fatal(err)
		}
		wantTransfers(t, out, 20)
	}
}

// Given three addresses of RDMA devices, when requests between nodes over RDMA are recorded, then each is shown.
// The emulated machine needs one processor for that (.ci/run).
//
// r.M0.net.ib
func TestTraceOnOneProcessor(t *testing.T) {
	addresses(t, 3)
	out, err := tryProgram(t, "lnetperf", "trace", "--port", fmt.Sprint(service), "--over", "rdma", "--requests", "5")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"inproc, over RDMA: ", "two lnetd, over RDMA: ", " lnetd 1/", " lnetd 2/"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// Given two lnetds over RDMA, when a program of one exchanges messages and bulk with a program of
// the other, then all of it arrives unchanged, directly from and into the memory that they share
// with lnetd.
//
// transport 10.1 steps
// r.M0.net.ib
// r.M0.net.xprt.lnet.user
func TestHostedProgramsOnDevices(t *testing.T) {
	at := addresses(t, 2)
	a, b := start(t, "", at[0]+"@o2ib"), start(t, "", at[1]+"@o2ib")
	a.wantPing(t, b)
	server := startProgram(t, "lnetperf", "ping", "-s", "--until-signal", "--through", b.hosting(), "-I", b.nids[0], "-d", "1M")
	// A client that is earlier than the server waits for the end of its time limit.
	daemontest.Within(t, patience, "the server is ready", func() error {
		if said := fmt.Sprint(server.Stdout); !strings.Contains(said, "ready at ") {
			return fmt.Errorf("its output is %q", said)
		}
		return nil
	})
	out, err := tryProgram(t, "lnetperf", "ping", "-c", "--through", a.hosting(), "-i", a.nids[0], "-I", b.nids[0],
		"-n", "2", "-l", "4", "-d", "1M", "-o", "60", "-O", "60")
	if err != nil {
		t.Fatal(err)
	}
	wantTransfers(t, out, 8)
	if err := server.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	if err := server.Wait(); err != nil {
		t.Errorf("server: %v\n%s", err, server.Stdout)
	}
	a.wantMetrics(t, at[0], "\nlnet_lnd_rdma_gets_total{")
}

// wantTransfers checks lnetperf's tables: the number of bulks in each direction, and no errors.
func wantTransfers(t *testing.T, out string, n int) {
	t.Helper()
	_, total, found := strings.Cut(out, "Client total")
	for _, queue := range []string{"pRECV", "pSEND"} {
		if want := fmt.Sprintf(`(?m)^ *%s +%d +0 +%d +0 `, queue, n, n); !found || !regexp.MustCompile(want).MatchString(total) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if !strings.Contains(total, "Errors: 0, retries: 0") {
		t.Errorf("errors or retries in\n%s", out)
	}
}

func (n *daemon) ping(t *testing.T, to *daemon) error {
	t.Helper()
	out, status := n.Ctl(t, "ping", "--timeout", "10", to.nids[0])
	return saying(out, status, to)
}

func (n *daemon) wantPing(t *testing.T, to *daemon) {
	t.Helper()
	if err := n.ping(t, to); err != nil {
		t.Errorf("%s pings %s: %v", n.Name, to.Name, err)
	}
}

func (n *daemon) wantDiscover(t *testing.T, of *daemon) {
	t.Helper()
	out, status := n.Ctl(t, "discover", of.nids[0])
	if err := saying(out, status, of, "Multi-Rail: true"); err != nil {
		t.Errorf("%s discovers %s: %v", n.Name, of.Name, err)
	}
}

// wantMetrics checks that the metrics contain these lines.
func (n *daemon) wantMetrics(t *testing.T, address string, patterns ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s:%d/metrics", address, metrics), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(reply.Body)
	if err := errors.Join(err, reply.Body.Close()); err != nil {
		t.Fatal(err)
	}
	for _, pattern := range patterns {
		if !strings.Contains(string(body), pattern) {
			t.Errorf("%s has no %q", n.Name, pattern)
		}
	}
}

// wantLoad makes the node exchange data with another one by LNet selftest, without any error.
func (n *daemon) wantLoad(t *testing.T, with *daemon, test ...string) {
	t.Helper()
	command := append([]string{"lst", "quick", "--json", "--time", "2s", "--from", n.nids[0], "--to", with.nids[0]}, test...)
	out := strings.TrimSpace(n.Must(t, command...))
	var result struct {
		Total  struct{ Latency struct{ Count int } }
		Failed bool
	}
	last := out[strings.LastIndexByte(out, '\n')+1:]
	if err := json.Unmarshal([]byte(last), &result); err != nil || result.Failed || result.Total.Latency.Count == 0 {
		t.Errorf("%s: %v\n%s", command, err, out)
	}
}
