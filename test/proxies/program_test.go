package proxies

import (
	"context"
	"flag"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lnetd/lnetd/examples/udplnd"
	"github.com/lnetd/lnetd/internal/testing/process"
	"github.com/lnetd/lnetd/lnet"
)

// long selects the long form of each test.
var long = flag.Bool("long", false, "the long form of each test")

// patience is the time limit for events that must happen.
const patience = time.Minute

// roleEnv is an environment variable that makes the program a proxy, or lnetd's side of proxies.
const roleEnv = "LNETD_PROXIES_ROLE"

// order is the configuration of a process.
type order struct {
	Role   string
	Socket string // lnetd's for proxies
	NID    string // of the NI that a proxy serves, or of the first NI of a node
	Port   int    // of the driver
	Over   string // the network of the driver: "" for TCP, or "udp"
	Ahead  int    // proxy.Config.MaxAhead
	Kind   string // of a hostile proxy
	PID    lnet.PID
	Seed   uint64
	// Served are the NIDs of further NIs, which proxies serve.
	Served []string
}

// roles are the roles of processes. A process ends when ctx is done, which is when its input ends.
var roles = map[string]func(ctx context.Context, o order) error{
	"proxy":   beProxy,
	"hostile": beHostile,
	"router":  beRouter,
}

// udpNets is the type of nets over UDP, as lnetd's configuration names it too.
var udpNets = lnet.NamedType{Type: udplnd.Type, Name: "udp", IP: true}

func TestMain(m *testing.M) {
	if err := lnet.NameType(udpNets); err != nil {
		panic(err)
	}
	var o order
	process.Play(roleEnv, &o, func() error {
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			cancel()
		}()
		return roles[o.Role](ctx, o)
	})
	os.Exit(m.Run())
}

// guest is another process.
type guest struct {
	*process.Process
	order order
}

// enter starts a process that runs until the end of the test.
func enter(t testing.TB, o order) *guest {
	t.Helper()
	return &guest{Process: process.Start(t, strings.TrimSpace(o.Role+" "+o.Kind), process.Role(t, roleEnv, o)), order: o}
}

// within waits until f returns true.
func within(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// rest waits for a while, or until ctx is done.
func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
