package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/testing/controltest"
	"github.com/lnetd/lnetd/lnet"
)

// guests returns a daemon that hosts two processes.
func guests(t *testing.T) *controltest.Daemon {
	t.Helper()
	nid, err := lnet.ParseNID("10.0.0.1@tcp")
	if err != nil {
		t.Fatal(err)
	}
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)
	return &controltest.Daemon{Guests: api.Clients{Socket: "/run/lnetd/lnetd.sock", Clients: []api.ClientInfo{
		{
			ID: 7, PID: 4711, UID: 1000, Program: "store", Cgroup: "/store", Rule: "servers", Since: since,
			Buffers: 2, Areas: 1, Bytes: 1 << 20, TMs: []api.ClientTM{{
				NID: nid, PID: 12345, Portal: 34, ID: 1, Entries: 1024, Waiting: 3, Kept: 4, Overflowed: 9, Rejected: 1,
				Submissions: 30, Completions: 20, Waits: 5, BellReads: 6, BellWrites: 8,
				Queues: []api.ClientQueue{{
					Queue: "mRECV", Depth: 1, Completed: 2, Failed: 9, Bytes: 300, Added: 5, Cancelled: 4, MaxBytes: 200, Seconds: 1.5,
				}},
			}},
		},
		{ID: 12, PID: 9, Since: since, Ending: true},
	}}}
}

func TestClients(t *testing.T) {
	path := serve(t, guests(t))
	const short = `id program      pid   uid  tms  buffers    bytes     rule                since  cgroup
7  store       4711  1000    1        2  1048576  servers  2026-01-02 03:04:05  /store
12 - (ending)     9     0    0        0        0        -  2026-01-02 03:04:05  -
`
	const long = short + `
client 7, TM 10.0.0.1@tcp:12345:34:1
  completions: 20, room for 1024, 3 wait, 9 overflowed, 4 of these are kept
  submissions: 30, 1 rejected
  waits: 5, woken 6 times, woke the client 8 times
  queue  depth  added  cancelled  completed  failed  bytes  max  in queue
  mRECV      1      5          4          2       9    300  200  1.500s
`
	for line, want := range map[string]string{"clients": short, "clients -v": long} {
		got := runProgram(program{}, append(words(line), "--control-socket", path)...)
		if diff := cmp.Diff(ran{stdout: want}, got, cmp.AllowUnexported(ran{})); diff != "" {
			t.Errorf("%s: %s", line, diff)
		}
	}
	got := runProgram(program{}, "clients", "--json", "--control-socket", path)
	if got.status != exitOK || !strings.Contains(got.stdout, `"waiting": 3`) {
		t.Errorf("%+v", got)
	}
}

func TestClientDrop(t *testing.T) {
	d := guests(t)
	path := serve(t, d)
	for _, c := range []struct {
		id     string
		status int
	}{{"7", exitOK}, {"7", 254}, {"x", exitInvalid}} {
		got := runProgram(program{}, "client", "drop", c.id, "--control-socket", path)
		if got.status != c.status || got.stdout != "" || (got.stderr == "") != (c.status == exitOK) {
			t.Errorf("drop %s: %+v", c.id, got)
		}
	}
	if diff := cmp.Diff([]string{"DropClient 7"}, d.Done); diff != "" {
		t.Error(diff)
	}
}

// Without hosted programs, "clients" says so.
func TestClientsOff(t *testing.T) {
	got := runProgram(program{}, "clients", "--control-socket", serve(t, &controltest.Daemon{}))
	if got.status != exitOK || !strings.Contains(got.stdout, "switched off") {
		t.Errorf("%+v", got)
	}
}

// Rates are the differences of two samples. Those of a transfer machine that is new, or that
// replaced the earlier one, are counted since its start.
func TestClientRates(t *testing.T) {
	of := func(id uint16, submissions, completed, bytes, waits uint64) api.ClientTM {
		return api.ClientTM{ID: id, Submissions: submissions, Waits: waits, Queues: []api.ClientQueue{
			{Queue: "mRECV", Completed: completed, Bytes: bytes}, {Queue: "mSEND", Completed: completed},
		}}
	}
	old := &api.Clients{Clients: []api.ClientInfo{{ID: 7, TMs: []api.ClientTM{of(1, 100, 10, 1000, 5), of(2, 100, 10, 1000, 5)}}}}
	now := &api.Clients{Clients: []api.ClientInfo{
		{ID: 7, TMs: []api.ClientTM{of(1, 200, 30, 5000, 6), of(2, 2, 1, 20, 5)}},
		{ID: 8, TMs: []api.ClientTM{of(1, 8, 4, 40, 2)}},
	}}
	r := ratesOf(old, now, 2*time.Second)
	want := &clientRates{Seconds: 2, Clients: []clientRate{
		{ID: 7, rate: rate{21, 2010}, TMs: []tmRate{
			{rate: rate{20, 2000}, Waits: 0.5, Queues: []queueRate{{"mRECV", rate{10, 2000}}, {"mSEND", rate{10, 0}}}},
			{rate: rate{1, 10}, Waits: 2.5, Queues: []queueRate{{"mRECV", rate{0.5, 10}}, {"mSEND", rate{0.5, 0}}}},
		}},
		{ID: 8, rate: rate{4, 20}, TMs: []tmRate{
			{rate: rate{4, 20}, Waits: 1, Queues: []queueRate{{"mRECV", rate{2, 20}}, {"mSEND", rate{2, 0}}}},
		}},
	}}
	if diff := cmp.Diff(want, r, cmp.AllowUnexported(clientRate{}, tmRate{}, queueRate{})); diff != "" {
		t.Error(diff)
	}
	got := clientsText(&api.Clients{Socket: "s", Clients: now.Clients}, r, true)
	for _, part := range []string{
		"  completed/s  bytes/s  ", "         21.0     2010  ", "in a second: 20.0 completed, 2000 bytes, 0.5 waits\n", "        0.5  10.0\n",
	} {
		if !strings.Contains(got, part) {
			t.Errorf("no %q in\n%s", part, got)
		}
	}
}

// With --interval lnetd is asked again after that interval.
func TestClientsInterval(t *testing.T) {
	path := serve(t, guests(t))
	var waited []time.Duration
	p := program{pause: func(_ context.Context, d time.Duration) error {
		waited = append(waited, d)
		return nil
	}}
	got := runProgram(p, "clients", "--interval", "2.5", "--json", "--control-socket", path)
	if got.status != exitOK || !strings.Contains(got.stdout, `"completed_per_second": 0`) || !strings.Contains(got.stdout, `"socket"`) {
		t.Errorf("%+v", got)
	}
	if diff := cmp.Diff([]time.Duration{2500 * time.Millisecond}, waited); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"0", "-1", "0.01", "3601", "NaN", "x"} {
		if got := runProgram(p, "clients", "--interval="+bad, "--control-socket", path); got.status == exitOK {
			t.Errorf("%s: %+v", bad, got)
		}
	}
}
