package main

import (
	"fmt"
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
				Submissions: 30, Completions: 20, Polls: 11, Found: 10, Waits: 5, WordWaits: 4, BellReads: 6, BellWrites: 8,
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
  polls: 11, 10 found submissions
  waits: 5, 4 of these on the flag, woken 6 times, woke the client 8 times
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

// The rates of a client are the sums of those of its queues, which are measured one by one, so that a transfer machine
// that ends does not look like a reset. Queues that send count as sent.
func TestClientSamples(t *testing.T) {
	all := guests(t).Guests
	all.Clients[0].TMs[0].Queues = append(all.Clients[0].TMs[0].Queues, api.ClientQueue{Queue: "aSEND", Completed: 3, Bytes: 7, Failed: 1})
	all.Proxies = []api.ProxyInfo{{Name: "mpi", NID: all.Clients[0].TMs[0].NID, Sent: 1, Received: 2, Failed: 3, SentBytes: 4, ReceivedBytes: 5}}
	for level, want := range map[int64]string{
		0: `7 store [0 2 9 0 300] 4 completions are not read
7 store [3 0 1 7 0] 4 completions are not read
12 - [0 0 0 0 0]${_}
proxy mpi 10.0.0.1@tcp [1 2 3 4 5]${_}
`,
		1: `7 store 10.0.0.1@tcp:12345:34:1 mRECV [0 2 9 0 300] 4 completions are not read
7 store 10.0.0.1@tcp:12345:34:1 aSEND [3 0 1 7 0] 4 completions are not read
12 - [0 0 0 0 0]${_}
proxy mpi 10.0.0.1@tcp [1 2 3 4 5]${_}
`,
	} {
		got := ""
		for s := range clientSamples(&all, level) {
			got += fmt.Sprintf("%s %v %s\n", s.name, s.counters, s.note)
		}
		if diff := cmp.Diff(strings.ReplaceAll(want, "${_}", " "), got); diff != "" {
			t.Errorf("level %d: %s", level, diff)
		}
	}
}
