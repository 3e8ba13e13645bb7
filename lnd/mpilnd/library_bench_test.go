//go:build mpi && cgo

package mpilnd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/mpilnd/shim"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// stream is the environment variable that makes rank 0 send PUTs of 1 MiB to rank 1, window at a time.
const (
	stream = "LNETD_TEST_MPI_STREAM"
	window = 8
	puts   = 1024
)

// streamer runs a node of BenchmarkMegabyte. Rank 0 prints the megabytes of payload that it sends in a second, and tells
// rank 1 that it has ended.
func streamer(d *Driver, rank int) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	n, err := node.New(node.Config{})
	if err != nil {
		return err
	}
	if _, err := n.Attach(portals.Entry{Portal: portal}, portals.MD{
		Bytes: make([]byte, lnet.MTU), Options: portals.OpPut | portals.ManageRemote | portals.Truncate, Threshold: portals.Unlimited,
	}); err != nil {
		return err
	}
	inbox, err := n.OpenInbox(node.InboxConfig{Portal: portal + 1})
	if err != nil {
		return err
	}
	if _, err := n.AddNI(ctx, d, lnd.Config{NID: nid(rank)}); err != nil {
		return err
	}
	if rank == 1 {
		for _, err = range inbox.Messages(ctx) {
			break
		}
	} else {
		to := lnet.ProcessID{NID: nid(1)}
		b := pattern(lnet.MTU)
		_, err = n.PutWait(ctx, b, to, node.PutOptions{Portal: portal, Ack: true})
		begin := time.Now()
		var all sync.WaitGroup
		failures := make([]error, window)
		for k := range window {
			all.Go(func() {
				for range puts / window {
					_, err := n.PutWait(ctx, b, to, node.PutOptions{Portal: portal, Ack: true})
					failures[k] = errors.Join(failures[k], err)
				}
			})
		}
		all.Wait()
		err = errors.Join(append(failures, err)...)
		fmt.Printf("%.0f\n", puts*lnet.MTU/time.Since(begin).Seconds()/1e6)
		_, ended := n.PutWait(ctx, nil, to, node.PutOptions{Portal: portal + 1, Ack: true})
		err = errors.Join(err, ended)
	}
	return errors.Join(err, n.Close(ctx))
}

// BenchmarkMegabyte sends PUTs of 1 MiB from one rank to another over TCP, and the same bytes with the plainest program
// in C. It reports the medians in MB/s, and their ratio.
func BenchmarkMegabyte(b *testing.B) {
	for kind, mpirun := range map[string][]string{
		shim.OpenMPI: {"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--mca", "pml", "ob1", "--mca", "btl", "tcp,self"},
		shim.MPICH:   {"mpirun.mpich", "-env", "UCX_TLS", "tcp,self"},
	} {
		b.Run(kind, func(b *testing.B) {
			dir := b.TempDir()
			floor := filepath.Join(dir, "floor")
			for _, c := range []*exec.Cmd{
				exec.Command("shim/build", dir, kind), exec.Command("mpicc."+kind, "-O2", "-o", floor, "shim/testdata/floor.c"),
			} {
				if out, err := c.CombinedOutput(); err != nil {
					b.Fatalf("%v\n%s", err, out)
				}
			}
			measure := func(program ...string) (figure float64) {
				b.Helper()
				ctx, cancel := context.WithTimeout(b.Context(), patience)
				defer cancel()
				c := exec.CommandContext(ctx, mpirun[0], append(append(mpirun[1:len(mpirun):len(mpirun)], "-n", "2"), program...)...)
				c.Env = append(os.Environ(), shims+"="+dir, stream+"=1")
				c.Cancel = func() error { return c.Process.Signal(os.Interrupt) } // mpirun then ends the ranks
				c.WaitDelay = 10 * time.Second
				out, err := c.CombinedOutput()
				for line := range strings.Lines(string(out)) {
					if _, e := fmt.Sscan(line, &figure); e == nil {
						return figure // also if MPICH has not returned from MPI_Finalize (mpilnd B.8)
					}
				}
				b.Fatalf("%v\n%s", err, out)
				return 0
			}
			var own, plain []float64
			for range b.N {
				own = append(own, measure(os.Args[0]))
				plain = append(plain, lnet.MTU/measure(floor, fmt.Sprint(lnet.MTU), fmt.Sprint(puts), fmt.Sprint(window))*1e3)
			}
			slices.Sort(own)
			slices.Sort(plain)
			middle := len(own) / 2
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(own[middle], "MB/s")
			b.ReportMetric(plain[middle], "C-MB/s")
			b.ReportMetric(own[middle]/plain[middle], "ratio")
		})
	}
}
