package netns

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
	"github.com/lnetd/lnetd/internal/testing/daemontest"
)

// longTimeouts configures LNet selftest so that no session expires while a test is set up. 64 MiB of bulk data
// make large tests wait.
var longTimeouts = []string{"memory: 64", "session_timeout: 600"}

// testbed is the nodes of a selftest: the console, the clients, and the servers, which may be behind a
// router.
type testbed struct {
	world            *world
	console          *loadedDaemon
	clients, servers []*loadedDaemon
	router           *daemon // nil: no router
	// configuration is the configuration of all nodes, unless there is a router.
	configuration *configuration
}

// newTestbed starts all nodes. selftest are keys of that section of the configuration.
func newTestbed(t *testing.T, clients, servers int, c *configuration, selftest ...string) *testbed {
	t.Helper()
	b := &testbed{world: newWorld(t, 1), configuration: c}
	c.selftest = selftest
	b.console = b.world.host(t, 0).startLoaded(t, c)
	for range clients {
		b.clients = append(b.clients, b.world.host(t, 0).startLoaded(t, c))
	}
	for range servers {
		b.servers = append(b.servers, b.world.host(t, 0).startLoaded(t, c))
	}
	return b
}

// newRoutedBed is like newBed, with a router before the servers.
func newRoutedBed(t *testing.T, clients, servers int, selftest ...string) *testbed {
	t.Helper()
	b := &testbed{world: newWorld(t, 2)}
	gateway := b.world.host(t, 0, 1)
	b.router = gateway.startWith(t, &configuration{patient: true, router: true})
	near := &configuration{patient: true, selftest: selftest, routes: []route{{to: 1, on: 0, gateway: gateway, hops: 1}}}
	far := &configuration{patient: true, selftest: selftest, routes: []route{{to: 0, on: 1, gateway: gateway, hops: 1}}}
	b.console = b.world.host(t, 0).startLoaded(t, near)
	for range clients {
		b.clients = append(b.clients, b.world.host(t, 0).startLoaded(t, near))
	}
	for range servers {
		b.servers = append(b.servers, b.world.host(t, 1).startLoaded(t, far))
	}
	for _, p := range b.all() {
		p.wantRoutes(t, announced+lateness, 1)
	}
	return b
}

func (b *testbed) all() []*loadedDaemon {
	return slices.Concat([]*loadedDaemon{b.console}, b.clients, b.servers)
}

// end checks that nothing is left on any node, and stops them.
func (b *testbed) end(t *testing.T) {
	t.Helper()
	for _, p := range b.all() {
		p.wantNoSession(t, noticePatience)
		p.wantRest(t)
	}
	for _, p := range b.all() {
		p.Stop(t)
	}
	if b.router != nil {
		b.router.wantRest(t)
		b.router.Stop(t)
	}
}

// nids returns the NIDs of consecutive parties as a range, the way users write it.
func nids(parties []*loadedDaemon) string {
	first, last := parties[0].host, parties[len(parties)-1].host
	if first == last {
		return first.nid()
	}
	network := first.networks[0]
	return fmt.Sprintf("10.213.%d.[%d-%d]@%s", network, first.number, last.number, lnetOf(network))
}

// id returns the node's name as lst prints it.
func (d *daemon) id() string { return "12345-" + d.host.nid() }

// user is a user of a console, with a session's key in the environment.
type user struct {
	at  *daemon
	key int32
}

// keys gives each user a different session.
var keys atomic.Int32

func (d *daemon) user() user { return user{d, keys.Add(1)} }

// commandResult is the output and the result of a command.
type commandResult struct {
	stdout, stderr string
	status         int
}

// lst runs one of lst's commands.
func (u user) lst(t *testing.T, args ...string) commandResult {
	t.Helper()
	return u.do(t, "", args...)
}

func (u user) do(t *testing.T, stdin string, args ...string) commandResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program(t, "lnetdctl"), append([]string{"lst"}, args...)...)
	cmd.Env = u.environ()
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatalf("lst %q: %v", args, err)
	}
	return commandResult{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

func (u user) environ() []string {
	return append(os.Environ(), "LNETDCTL_HINTS=never", "LNETD_CONTROL_SOCKET="+u.at.Socket, fmt.Sprintf("LST_SESSION=%d", u.key))
}

// want checks a command's standard output. The command must succeed without any error output.
func (u user) want(t *testing.T, stdout string, args ...string) {
	t.Helper()
	u.wantSaid(t, commandResult{stdout: stdout}, args...)
}

func (u user) wantSaid(t *testing.T, want commandResult, args ...string) {
	t.Helper()
	if got := u.lst(t, args...); got != want {
		t.Fatalf("lst %q at %s:\n%s\nwant\n%s", args, u.at.host.nid(), got, want)
	}
}

func (s commandResult) String() string {
	return fmt.Sprintf("status %d\n%s--stderr--\n%s", s.status, s.stdout, s.stderr)
}

// lines passes the commands to lst's standard input, and checks their output.
func (u user) lines(t *testing.T, stdout string, commands ...string) {
	t.Helper()
	want := commandResult{stdout: stdout}
	if got := u.do(t, strings.Join(commands, "\n")+"\n"); got != want {
		t.Fatalf("lst at %s, with\n%s\nsays\n%s\nwant\n%s", u.at.host.nid(), strings.Join(commands, "\n"), got, want)
	}
}

// session creates a session with the clients in a group c and the servers in a group s.
func (b *testbed) session(t *testing.T) user {
	t.Helper()
	u := b.console.user()
	u.begin(t, b.clients, b.servers)
	return u
}

func (u user) begin(t *testing.T, clients, servers []*loadedDaemon) {
	t.Helper()
	u.lines(t, fmt.Sprintf("SESSION: test FEATURES: 1 TIMEOUT: 300 FORCE: No\n%s are added to session\n%s are added to session\n",
		nids(clients), nids(servers)),
		"new_session test", "add_group c "+nids(clients), "add_group s "+nids(servers))
}

// addTests creates a batch of tests, each with the arguments of add_test.
func (u user) addTests(t *testing.T, batch string, tests ...string) {
	t.Helper()
	commands := []string{"add_batch " + batch}
	for _, v := range tests {
		commands = append(commands, "add_test --batch "+batch+" "+v)
	}
	u.lines(t, strings.Repeat("Test was added successfully\n", len(tests)), commands...)
}

func (u user) run(t *testing.T, batch string) {
	t.Helper()
	u.want(t, batch+" is running now\n", "run", batch)
}

// wantStopped waits until all tests of a batch have ended by themselves.
func (u user) wantStopped(t *testing.T, patience time.Duration, batch string) {
	t.Helper()
	daemontest.Within(t, patience, "the batch "+batch+" is through", func() error {
		if s := u.lst(t, "query", batch); s != (commandResult{stdout: batch + " [0] is stopped\n"}) {
			return errors.New(s.String())
		}
		return nil
	})
}

// wantNoErrors checks that show_error reports no errors.
func (u user) wantNoErrors(t *testing.T) {
	t.Helper()
	u.want(t, "c:\nTotal 0 error nodes in c\ns:\nTotal 0 error nodes in s\n", "show_error", "c", "s")
}

// endSession ends the session, and checks that it has ended on all given nodes.
func (u user) endSession(t *testing.T, on []*loadedDaemon) {
	t.Helper()
	u.want(t, "", "end_session")
	for _, p := range on {
		p.wantNoSession(t, lateness)
	}
}

// selftest returns the output of lst status.
func (d *daemon) selftest(t *testing.T) api.LstStatus {
	t.Helper()
	return ask(t, d, func(ctx context.Context, c *client.Client) (api.LstStatus, error) { return c.LstStatus(ctx) })
}

// wantNoSession waits until the node is in no session, as a member or as the console.
func (d *daemon) wantNoSession(t *testing.T, patience time.Duration) {
	t.Helper()
	daemontest.Within(t, patience, "no session on "+d.host.nid(), func() error {
		switch s := d.selftest(t); {
		case s.Console != nil:
			return fmt.Errorf("it is the console of %+v", *s.Console)
		case s.Session != nil:
			return fmt.Errorf("it is in %+v", *s.Session)
		}
		return nil
	})
}

// wantRequests waits until a node has sent and received n more requests, so its tests are running.
func (d *daemon) wantRequests(t *testing.T, n uint32) {
	t.Helper()
	before := d.selftest(t).Counters
	daemontest.Within(t, noticePatience, "requests of tests on "+d.host.nid(), func() error {
		if c := d.selftest(t).Counters; c.Sent+c.Received-before.Sent-before.Received < n {
			return fmt.Errorf("%d requests, before %d", c.Sent+c.Received, before.Sent+before.Received)
		}
		return nil
	})
}

// since returns the difference to an earlier reading.
func since(now, before api.LstCounters) api.LstCounters {
	return api.LstCounters{
		Errors: now.Errors - before.Errors, Sent: now.Sent - before.Sent, Received: now.Received - before.Received,
		Dropped: now.Dropped - before.Dropped, Expired: now.Expired - before.Expired,
		BulkGet: now.BulkGet - before.BulkGet, BulkPut: now.BulkPut - before.BulkPut,
	}
}
