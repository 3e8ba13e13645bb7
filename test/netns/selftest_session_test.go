package netns

import (
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Given tests that run endlessly, when the lnetd of their console is stopped, then the session ends
// on all nodes before lnetd exits. When it is killed, the session and its tests end on each node
// after that node's session timeout, and not earlier, although requests keep arriving. Then the
// nodes are free for others.
//
// selftest 4.1, 11 (4)
func TestSelftestConsoleDies(t *testing.T) {
	t.Parallel()
	const sessionTimeout = 8 // seconds; a busy machine must not take so long for a command
	b := newTestbed(t, 1, 1, &configuration{patient: true}, "memory: 64", fmt.Sprintf("session_timeout: %d", sessionTimeout))
	client, server := b.clients[0], b.servers[0]
	nodes := []*loadedDaemon{client, server}
	begin := func() user {
		t.Helper()
		u := b.session(t)
		u.addTests(t, "b", "--concurrency 2 --from c --to s brw read size=64K")
		u.run(t, "b")
		server.wantRequests(t, 100)
		return u
	}
	begin()
	b.console.Stop(t)
	for _, p := range nodes {
		if s := p.selftest(t).Session; s != nil {
			t.Errorf("the console has gone, and %s still is in %+v", p.host.nid(), s)
		}
	}

	b.console = b.console.host.startLoaded(t, b.configuration)
	u := begin()
	lastSign := time.Now()
	active := "Active [session: test id: " + b.console.host.nid() + "]\n"
	u.want(t, "\t"+client.id()+": "+active+"\t"+server.id()+": "+active, "ping", "--session")
	b.console.Kill(t)
	killed := time.Now()
	for _, p := range nodes {
		p.wantNoSession(t, sessionTimeout*time.Second+lateness)
	}
	if lived := time.Since(lastSign); lived < sessionTimeout*time.Second {
		t.Errorf("the session was over %v after the console's last sign of life", lived)
	}
	t.Logf("the session is over %v after the console's death", time.Since(killed).Round(time.Millisecond))
	for _, p := range nodes {
		p.wantRest(t)
	}
	got := client.user().lst(t, "quick", "--from", client.host.nid(), "--to", server.host.nid(), "--ping", "--time", "1s")
	if got.status != 0 || got.stderr != "" {
		t.Errorf("quick: %s", got)
	}
	for _, p := range nodes {
		p.wantNoSession(t, lateness)
		p.Stop(t)
	}
}

// keepInterval is how often a console checks its nodes and its session (selftest 7.7).
const keepInterval = 8 * time.Second

// Given a session without commands, its console keeps it alive on the nodes beyond their timeout.
// When there has been no command for the session's timeout, it is ended on all nodes.
//
// selftest 7.7 (1)-(2), 11 (4)
func TestSelftestIdleCommandLine(t *testing.T) {
	t.Parallel()
	const sessionTimeout = 20 // seconds; the third check of the console comes too late
	b := newTestbed(t, 1, 1, &configuration{patient: true}, fmt.Sprintf("session_timeout: %d", sessionTimeout))
	u := b.session(t)
	pass(t, (sessionTimeout+4)*time.Second)
	u.want(t, fmt.Sprintf("\t%[1]s: Active [session: test id: %[3]s]\n\t%[2]s: Active [session: test id: %[3]s]\n",
		b.clients[0].id(), b.servers[0].id(), b.console.host.nid()), "ping", "--session")
	u.endSession(t, b.all())

	const idle = 3 // seconds
	u = b.console.user()
	u.lines(t, fmt.Sprintf("SESSION: idle FEATURES: 1 TIMEOUT: %d FORCE: No\n%s are added to session\n%s are added to session\n",
		idle, nids(b.clients), nids(b.servers)),
		fmt.Sprintf("new_session --timeout %d idle", idle), "add_group c "+nids(b.clients), "add_group s "+nids(b.servers))
	u.addTests(t, "b", "--from c --to s ping")
	begun := time.Now()
	for _, p := range b.all() {
		p.wantNoSession(t, idle*time.Second+keepInterval+lateness)
	}
	t.Logf("an idle session of %d s is over after %v", idle, time.Since(begun).Round(time.Millisecond))
	u.wantSaid(t, commandResult{stderr: "No session exists\n", status: 255}, "list_group")

	// A killed command line is not idle: it is gone.
	quick := exec.Command(program(t, "lnetdctl"), "lst", "quick", "--from", nids(b.clients), "--to", nids(b.servers), "--time", "1h")
	quick.Env = u.environ()
	if err := quick.Start(); err != nil {
		t.Fatal(err)
	}
	b.servers[0].wantRequests(t, 100)
	if err := quick.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = quick.Wait()
	for _, p := range b.all() {
		p.wantNoSession(t, lateness)
	}
	b.end(t)
}

// Given a session with running tests, when a user begins another session at the same console, or
// makes another console use its nodes, then that is refused, with the name of the session that uses
// them, and the tests continue without an error. With force the nodes belong to the other session,
// and the first console is notified.
//
// selftest 4.4 (3), 4.4 (5), 7.8
func TestSelftestSecondConsole(t *testing.T) {
	t.Parallel()
	b := newTestbed(t, 2, 1, &configuration{patient: true}, longTimeouts...)
	other, server := b.clients[1], b.servers[0]
	b.clients = b.clients[:1]
	client := b.clients[0]
	u := b.session(t)
	u.addTests(t, "b", "--concurrency 2 --from c --to s brw write check=full size=4K")
	u.run(t, "b")

	u2 := b.console.user()
	u2.wantSaid(t, commandResult{stderr: "session already exists\n", status: 255}, "new_session", "mine")
	u2.wantSaid(t, commandResult{stderr: "Unmatched session key or not root\n", status: 255}, "stop", "b")
	rival := other.user()
	rival.want(t, "SESSION: rival FEATURES: 1 TIMEOUT: 300 FORCE: No\n", "new_session", "rival")
	both := client.host.nid() + " " + server.host.nid()
	rival.wantSaid(t, commandResult{
		stdout: "Group is deleted\n",
		stderr: "operation create session failed on " + client.id() + ": Device or resource busy\n" +
			"operation create session failed on " + server.id() + ": Device or resource busy\n" +
			"No nodes added successfully, deleting group g\n",
		status: 254,
	}, "add_group", "g", client.host.nid(), server.host.nid())
	rival.want(t, fmt.Sprintf("\t%s: Busy [session: test id: %s]\n", server.id(), b.console.host.nid()), "ping", "--nodes", server.host.nid())
	// A free node is added; a test with a node in use is refused.
	got := rival.lst(t, "add_group", "mixed", other.host.nid(), server.host.nid())
	if want := (commandResult{
		stdout: other.host.nid() + " are added to session\n",
		stderr: "operation create session failed on " + server.id() + ": Device or resource busy\n",
	}); got != want {
		t.Errorf("add_group: %s", got)
	}
	rival.want(t, "Group [ mixed ]\n\t"+other.id()+": Active\nTotal 1 nodes [ mixed ]\n", "list_group", "mixed", "--active")
	if got := rival.lst(t, "add_test", "--from", "mixed", "--to", "mixed", "ping"); got.status != 255 || got.stdout != "" || got.stderr == "" {
		t.Errorf("add_test: %s", got)
	}
	rival.want(t, "", "end_session")

	server.wantRequests(t, 100)
	u.want(t, "b [0] is running\n", "query", "b")
	u.wantNoErrors(t)

	rival = other.user()
	rival.lines(t, "SESSION: rival FEATURES: 1 TIMEOUT: 300 FORCE: Yes\n"+client.host.nid()+" are added to session\n"+server.host.nid()+" are added to session\n",
		"new_session --force rival", "add_group g "+both)
	if got, want := u.lst(t, "ping", "--session"), fmt.Sprintf("\t%[1]s: Busy [session: rival id: %[3]s]\n\t%[2]s: Busy [session: rival id: %[3]s]\n",
		client.id(), server.id(), other.host.nid()); got != (commandResult{stdout: want}) {
		t.Errorf("ping from the first console: %s", cmp.Diff(want, got.stdout))
	}
	if s := client.selftest(t).Session; s == nil || s.Name != "rival" || len(s.Tests) != 0 {
		t.Errorf("the client is in %+v", s)
	}
	// The first console ends its session, without any effect on the other one's.
	u.want(t, "", "end_session")
	rival.want(t, fmt.Sprintf("\t%[1]s: Active [session: rival id: %[3]s]\n\t%[2]s: Active [session: rival id: %[3]s]\n",
		client.id(), server.id(), other.host.nid()), "ping", "--group", "g")
	rival.want(t, "", "end_session")
	other.wantNoSession(t, lateness)
	other.Stop(t)
	b.end(t)
}
