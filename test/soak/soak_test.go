package soak

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"
)

// childVariable is an environment variable that makes a process of this test's binary the child.
const childVariable = "LNETD_SOAK_CHILD"

var (
	length  = flag.Duration("soak", 0, "soak for so long, with all checks; 0: some seconds")
	rails   = flag.Int("rails", 2, "with -soak: nets between the two nodes")
	patient = flag.Duration("transaction", 20*time.Second, "with -soak: transaction timeout")
	chatty  = flag.Bool("log", false, "log what nodes and drivers have to say")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv(childVariable) == "" {
		os.Exit(m.Run())
	}
	// The parent ends the soak. If the parent is gone, the pipe ends.
	signal.Ignore(os.Interrupt)
	if err := Serve(context.Background(), os.Stdin, os.Stdout, logger()); err != nil {
		fmt.Fprintln(os.Stderr, "soak, child:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func logger() *slog.Logger {
	if !*chatty {
		return nil
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
}

// TestSoak runs two nodes in two processes with connections that break. On one net, messages that
// cannot be sent fail. On two nets, they are sent again.
func TestSoak(t *testing.T) {
	c := DefaultConfig()
	if *length > 0 {
		c.Time, c.Rails, c.Transaction = *length, *rails, *patient
		soak(t, c, os.Stdout) // output at once
		return
	}
	c.Time, c.Transaction, c.Sample = 3*time.Second, 2*time.Second, 500*time.Millisecond
	for _, rails := range []int{1, 2} { // one after the other, because each counts this process's goroutines
		c.Rails = rails
		t.Run(fmt.Sprint(rails, " rails"), func(t *testing.T) { soak(t, c, t.Output()) })
	}
}

func soak(t *testing.T, c Config, w io.Writer) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	process := exec.Command(self, fmt.Sprintf("-log=%v", *chatty))
	process.Env = append(os.Environ(), childVariable+"=1")
	process.Stderr = os.Stderr
	if err := Run(ctx, c, process, w, logger()); err != nil {
		t.Fatal(err)
	}
}
