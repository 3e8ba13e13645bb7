package netns

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/daemontest"
)

// Given a node that corrupts what it sends, when others read from it, or it writes to others, and
// the data is checked, then the nodes that requested it count an error for each of their units,
// which ends. The other nodes count none, and neither do nodes that do not check.
//
// selftest 5 (4), 8 (14), 11 (6)
func TestSelftestSpoiltData(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	honest := w.host(t, 0).startLoaded(t, &configuration{patient: true, selftest: longTimeouts})
	spoiler := w.host(t, 0).startLoaded(t, &configuration{patient: true, selftest: append([]string{"brw_inject_errors: 1000"}, longTimeouts...)})
	u := honest.user()
	u.begin(t, []*loadedDaemon{honest}, []*loadedDaemon{spoiler})
	u.addTests(t, "read", "--concurrency 4 --from c --to s brw read check=full size=64K", "--concurrency 2 --from c --to s brw read check=simple size=4K")
	u.addTests(t, "write", "--concurrency 3 --from s --to c brw write check=full size=64K")
	u.addTests(t, "blind", "--concurrency 4 --loop 50 --from c --to s brw read size=64K", "--concurrency 4 --loop 50 --from c --to s brw read check=discard size=64K")

	u.run(t, "blind")
	u.wantStopped(t, noticePatience, "blind")
	u.wantNoErrors(t)
	for _, batch := range []string{"read", "write"} {
		u.run(t, batch)
		u.wantStopped(t, noticePatience, batch)
	}
	u.wantSaid(t, commandResult{
		stdout: "c:\nTotal 1 error nodes in c\ns:\nTotal 1 error nodes in s\n",
		stderr: honest.id() + ": [Session 6 brw errors, 0 ping errors] [RPC: 0 errors, 0 dropped, 0 expired]\n" +
			spoiler.id() + ": [Session 3 brw errors, 0 ping errors] [RPC: 0 errors, 0 dropped, 0 expired]\n",
	}, "show_error", "c", "s")
	u.endSession(t, []*loadedDaemon{honest, spoiler})

	// A new session starts with zero counters.
	u = honest.user()
	u.begin(t, []*loadedDaemon{honest}, []*loadedDaemon{spoiler})
	u.wantNoErrors(t)
	u.endSession(t, []*loadedDaemon{honest, spoiler})
	honest.Stop(t)
	spoiler.Stop(t)
}

// flipByte makes a network's switch change one byte of the next frame that contains the pattern of
// bulk data. The pattern is that of selftest 5, in which every second byte is 0xee.
func (w *world) flipByte(t *testing.T, network int) (mend func()) {
	t.Helper()
	const at = 500 // after the beginning of a TCP segment
	found := func(from int) (match string) {
		for k := range 4 {
			match += fmt.Sprintf("@th,%d,8 0xee ", (from+2*k)*8)
		}
		return match
	}
	w.nft(t, fmt.Sprintf(`add table bridge flip
add chain bridge flip once
add rule bridge flip once limit rate 1/day burst 1 packets @th,%d,8 set 0x41
add chain bridge flip frames { type filter hook forward priority 0; }
add rule bridge flip frames oifname "%s*" ip protocol tcp %s jump once
add rule bridge flip frames oifname "%[2]s*" ip protocol tcp %[4]s jump once
`, at*8, ports(network), found(at), found(at+1)))
	return func() {
		t.Helper()
		w.nft(t, "delete table bridge flip\n")
	}
}

// Given a network that changes one byte in 1 MiB in transit, when the data is checked, then
// show_error reports one error, on the client, one unit has ended, and the others continue.
//
// selftest 5 (3)-(4), 8 (14)
func TestSelftestFlippedByte(t *testing.T) {
	t.Parallel()
	b := newTestbed(t, 1, 1, &configuration{patient: true}, longTimeouts...)
	client := b.clients[0]
	for _, op := range bulkOps {
		u := b.session(t)
		u.addTests(t, "b", "--concurrency 3 --from c --to s brw "+op+" check=full size=1M")
		mend := b.world.flipByte(t, 0)
		u.run(t, "b")
		daemontest.Within(t, noticePatience, op+": the error is counted", func() error {
			if s := client.selftest(t).Session; s.BRWErrors == 0 {
				return fmt.Errorf("%+v", s)
			}
			return nil
		})
		client.wantRequests(t, 10)
		if v := client.selftest(t).Session.Tests[0]; v.Active != 2 {
			t.Errorf("%s: %+v, want 2 active units", op, v)
		}
		u.wantSaid(t, commandResult{
			stdout: "c:\nTotal 1 error nodes in c\ns:\nTotal 0 error nodes in s\n",
			stderr: client.id() + ": [Session 1 brw errors, 0 ping errors] [RPC: 0 errors, 0 dropped, 0 expired]\n",
		}, "show_error", "c", "s")
		u.wantStop(t, "b")
		u.endSession(t, b.all())
		mend()
	}
	b.end(t)
}

// wantStop stops a batch whose nodes all answer.
func (u user) wantStop(t *testing.T, batch string, options ...string) {
	t.Helper()
	got := u.lst(t, append(append([]string{"stop"}, options...), batch)...)
	if got.status != 0 || got.stderr != "" || !stopped.MatchString(got.stdout) {
		t.Errorf("stop %s: %s", batch, got)
	}
}

var stopped = regexp.MustCompile(`^([0-9]+ batch in stopping\n)*Batch is stopped\n$`)

// Given two clients that each send to a server, when one server dies under load, then its client
// counts an error for each of its units, all of which end, and the other pair continues. When the
// other client dies too, the console reports which nodes are down, and stop reports which do not
// answer. The session ends in time, and nothing of it is left on the nodes that are alive.
//
// selftest 4.10 (3), 7.2, 8 (14), 11 (5)
func TestSelftestNodeDies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		die  func(t *testing.T, p *loadedDaemon)
	}{
		{"killed", func(t *testing.T, p *loadedDaemon) { p.Kill(t) }},
		{"without power", func(t *testing.T, p *loadedDaemon) {
			pull(t, 0, p.host)
			p.Kill(t)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			testNodeDies(t, c.die)
		})
	}
}

func testNodeDies(t *testing.T, die func(t *testing.T, p *loadedDaemon)) {
	t.Helper()
	const rpcTimeout = 8 // seconds; a busy machine must not take so long for a request
	b := newTestbed(t, 2, 2, &configuration{}, append([]string{fmt.Sprintf("rpc_timeout: %d", rpcTimeout)}, longTimeouts...)...)
	lonely, client := b.clients[0], b.clients[1]
	dead, server := b.servers[0], b.servers[1]
	u := b.session(t)
	u.addTests(t, "b", "--concurrency 4 --from c --to s brw write check=simple size=64K")
	u.run(t, "b")
	lonely.wantRequests(t, 100)
	server.wantRequests(t, 100)

	die(t, dead)
	died := time.Now()
	daemontest.Within(t, rpcTimeout*time.Second+noticePatience, "its client's units end", func() error {
		if s := lonely.selftest(t).Session; s.BRWErrors != 4 || s.Tests[0].Active != 0 {
			return fmt.Errorf("%d errors, %+v", s.BRWErrors, s.Tests)
		}
		return nil
	})
	t.Logf("the client of the dead server has counted its errors %v after the death", time.Since(died).Round(time.Millisecond))
	server.wantRequests(t, 100)
	u.want(t, "b [0] stopped: 1 , running: 1, failed: 0\n", "query", "b")
	if s := client.selftest(t).Session; s.BRWErrors != 0 {
		t.Errorf("the other client counts %d errors", s.BRWErrors)
	}

	// The console detects the death at the next ping. It waits for 3 s if the connection is not refused.
	die(t, client)
	active := "Active [session: test id: " + b.console.host.nid() + "]"
	const down = "Down [session: <NULL> id: LNET_NID_ANY]"
	u.want(t, fmt.Sprintf("\t%s: %s\n\t%s: %s\n", lonely.id(), active, client.id(), down), "ping", "--group", "c", "--timeout", "3")
	u.want(t, fmt.Sprintf("\t%s: %s\n\t%s: %s\n", dead.id(), down, server.id(), active), "ping", "--group", "s", "--timeout", "3")
	got := u.lst(t, "stat", "--bw", "--avg", "--read", "--timeout", "3", "--delay", "1", "--count", "1", "s")
	if got.status != 0 || got.stderr != "" || !statOfOne.MatchString(got.stdout) {
		t.Errorf("stat: %s", got)
	}
	if got := u.lst(t, "stop", "b"); got.status != 255 || got.stdout != "" || !stopFailed(client).MatchString(got.stderr) {
		t.Errorf("stop: %s", got)
	}
	// Messages in transit on a connection are waited for until the connection is detected as dead.
	u.wantSaid(t, commandResult{
		stdout: "c:\nTotal 2 error nodes in c\ns:\nTotal 1 error nodes in s\n",
		stderr: "RPC failure, can't show error on " + client.id() + "\n" +
			lonely.id() + ": [Session 4 brw errors, 0 ping errors]\n" +
			"RPC failure, can't show error on " + dead.id() + "\n",
	}, "show_error", "--session", "c", "s")
	begun := time.Now()
	u.want(t, "", "end_session")
	if took := time.Since(begun); took > noticePatience {
		t.Errorf("end_session took %v", took)
	}
	for _, p := range []*loadedDaemon{b.console, lonely, server} {
		p.wantNoSession(t, lateness)
		p.wantRest(t)
		p.Stop(t)
	}
	t.Logf("the whole took %v from the first death on", time.Since(died).Round(time.Millisecond))
}

var statOfOne = regexp.MustCompile(`^Failed to stat on 1 nodes\n\[LNet Bandwidth of s\]\n\[R\] Avg: [0-9.]+ +MiB/s *\n$`)

// stopFailed matches the output of stop for a node that does not answer.
func stopFailed(p *loadedDaemon) *regexp.Regexp {
	return regexp.MustCompile("^stop batch RPC failed on " + regexp.QuoteMeta(p.id()) + `: Unknown error -[0-9]+\n$`)
}
