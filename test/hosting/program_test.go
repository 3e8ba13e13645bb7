package hosting

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/process"
)

// long selects the long form of each campaign.
var long = flag.Bool("long", false, "the long form of each campaign")

// roleEnv is an environment variable that makes the program a client.
const roleEnv = "LNETD_HOSTING_ROLE"

// order is the configuration of a client.
type order struct {
	Role   string
	Socket string // lnetd's
	At, To string // addresses of its TM, and of its peer
	ID     int
	Seed   uint64
	File   string
	Kind   string
	Pause  time.Duration
}

// roles are the roles of clients. A client prints "up" when it is ready, and exits when its input
// ends.
var roles = map[string]func(ctx context.Context, o order, in *bufio.Scanner) error{
	"echo":    beEcho,
	"ping":    bePing,
	"asker":   beAsker,
	"worker":  beWorker,
	"server":  beServer,
	"victim":  beVictim,
	"hostile": runHostile,
	"waiter":  awaitRestart,
	"greedy":  exhaustQuota,
	"glutton": queueWithoutReading,
	"forker":  beForker,
	"chatter": exchangeMessages,
	"crowd":   holdIdleDomains,
}

func TestMain(m *testing.M) {
	var o order
	process.Play(roleEnv, &o, func() error {
		role := roles[o.Role]
		if role == nil {
			return fmt.Errorf("no role %q", o.Role)
		}
		return role(context.Background(), o, bufio.NewScanner(os.Stdin))
	})
	flag.Parse()
	status := m.Run()
	lnetd.forget()
	racy.forget()
	library.forget()
	os.Exit(status)
}

// guest is a client process.
type guest struct {
	*process.Process
	order order
}

// enter starts a client that runs until the end of the test, and waits until it is up.
func enter(t testing.TB, o order) *guest {
	t.Helper()
	g := begin(t, o)
	g.Expect("up")
	return g
}

// begin starts a client.
func begin(t testing.TB, o order) *guest {
	t.Helper()
	return run(t, o, process.Role(t, roleEnv, o))
}

// run starts a program that is a client.
func run(t testing.TB, o order, cmd *exec.Cmd) *guest {
	t.Helper()
	return &guest{Process: process.Start(t, fmt.Sprintf("%s %d", o.Role, o.ID), cmd), order: o}
}
