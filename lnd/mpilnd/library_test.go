//go:build mpi && cgo

package mpilnd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
	"github.com/lnetd/lnetd/lnd/mpilnd/shim"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// shims is the environment variable with the directory of the shims. If it is set, the process is a rank.
const shims = "LNETD_TEST_MPI_SHIMS"

func TestMain(m *testing.M) {
	if os.Getenv(shims) == "" {
		os.Exit(m.Run())
	}
	runtime.LockOSThread()
	if err := runRank(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

// TestLibraries runs four ranks with a node each under Open MPI and MPICH. Every rank pings all others, and exchanges
// PUTs and GETs with them, of sizes around the longest short message.
//
// PT-2, MT-1
func TestLibraries(t *testing.T) {
	for kind, mpirun := range map[string][]string{
		shim.OpenMPI: {"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"},
		shim.MPICH:   {"mpirun.mpich"},
	} {
		t.Run(kind, func(t *testing.T) {
			testenv.NeedCommand(t, mpirun[0], map[string]string{shim.OpenMPI: "openmpi-bin", shim.MPICH: "mpich"}[kind])
			testenv.NeedCommand(t, "mpicc."+kind, "lib"+kind+"-dev")
			dir := t.TempDir()
			if out, err := exec.Command("shim/build", dir, kind).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			program, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
			defer cancel()
			c := exec.CommandContext(ctx, mpirun[0], append(mpirun[1:], "-n", fmt.Sprint(members), program)...)
			c.Env = append(os.Environ(), shims+"="+dir)
			c.Cancel = func() error { return c.Process.Signal(os.Interrupt) } // mpirun then ends the ranks
			c.WaitDelay = 10 * time.Second
			out, err := c.CombinedOutput()
			if n := strings.Count(string(out), "passed"); err != nil || n != members {
				t.Errorf("%v, %d ranks have passed\n%s", err, n, out)
			}
			if strings.Contains(strings.ToLower(string(out)), "warn") || strings.Contains(string(out), "leak") {
				t.Errorf("the library complains:\n%s", out)
			}
		})
	}
}

const (
	members  = 4
	portal   = 30
	patience = time.Minute
)

// runRank runs the driver in the thread that has opened MPI, and a node over it in another goroutine.
func runRank() error {
	run, options := member, shim.Options{Dir: os.Getenv(shims), Processes: members}
	if os.Getenv(stream) != "" {
		run, options.Processes, options.Spin = streamer, 2, time.Millisecond
	}
	m, err := shim.Open("", options)
	if err != nil {
		return err
	}
	world, err := m.World()
	if err != nil {
		return err
	}
	c := DefaultConfig()
	c.MPI, c.Comms, c.Peers = m, []boundary.Comm{world}, ranks(world.Size())
	d, err := New(c)
	if err != nil {
		return err
	}
	result := make(chan error, 1)
	go func() {
		result <- run(d, world.Rank())
		d.Close()
	}()
	if err := errors.Join(d.Run(), <-result); err != nil {
		fmt.Printf("rank %d: %v\n", world.Rank(), err)
		world.Abort(1)
	}
	fmt.Printf("passed: rank %d over %s\n", world.Rank(), m.Library())
	return errors.Join(world.Barrier(), d.Drain(), m.Close())
}

// member runs a node that exchanges messages with all others.
func member(d *Driver, rank int) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	n, err := node.New(node.Config{})
	if err != nil {
		return err
	}
	sizes := []int{0, 1, 8191, 8192, 8193, 65536, lnet.MTU}
	inbox, err := n.OpenInbox(node.InboxConfig{Portal: portal})
	if err != nil {
		return err
	}
	if _, err := n.Attach(portals.Entry{Portal: portal + 1}, portals.MD{
		Bytes: pattern(lnet.MTU), Options: portals.OpGet | portals.ManageRemote | portals.Truncate, Threshold: portals.Unlimited,
	}); err != nil {
		return err
	}
	if _, err := n.AddNI(ctx, d, lnd.Config{NID: nid(rank)}); err != nil { // others may send from now on
		return err
	}
	sent := make(chan error, 1)
	go func() { sent <- converse(ctx, n, rank, sizes) }()
	left := (members - 1) * (len(sizes) + 1)
	for m, err := range inbox.Messages(ctx) {
		if err != nil || !bytes.Equal(m.Data, pattern(len(m.Data))) {
			return fmt.Errorf("%d messages are missing: %w", left, err)
		}
		if left--; left == 0 {
			break
		}
	}
	return errors.Join(<-sent, n.Close(ctx))
}

// converse exchanges messages of all sizes with all other nodes. When no answer is missing, it sends one more to each.
// The receiver counts it. The sender ignores its result, because the receiver may end before the send is complete.
func converse(ctx context.Context, n *node.Node, rank int, sizes []int) error {
	for k := range members - 1 {
		to := lnet.ProcessID{NID: nid((rank + 1 + k) % members)}
		if _, err := n.Ping(ctx, to, node.PingOptions{}); err != nil {
			return fmt.Errorf("ping %s: %w", to, err)
		}
		for _, size := range sizes {
			if got, err := n.PutWait(ctx, pattern(size), to, node.PutOptions{Portal: portal, Ack: true}); err != nil || got != size {
				return fmt.Errorf("PUT of %d bytes to %s: %d, %w", size, to, got, err)
			}
			sink := make([]byte, size)
			got, err := n.GetWait(ctx, sink, to, node.GetOptions{Portal: portal + 1})
			if err != nil || !bytes.Equal(sink[:got], pattern(size)) {
				return fmt.Errorf("GET of %d bytes from %s: %d, %w", size, to, got, err)
			}
		}
	}
	for k := range members - 1 {
		to := lnet.ProcessID{NID: nid((rank + 1 + k) % members)}
		_, _ = n.PutWait(ctx, pattern(2), to, node.PutOptions{Portal: portal})
	}
	return nil
}
