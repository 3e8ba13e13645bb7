package job_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/mpilnd"
	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
	"github.com/lnetd/lnetd/lnd/mpilnd/boundary/fake"
	"github.com/lnetd/lnetd/lnd/mpilnd/job"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

var mpiNet = lnet.MakeNet(mpilnd.DefaultType, 0)

// address returns a NID on the net of the tests.
func address(n uint32) lnet.NID { return lnet.NIDFromNumber(mpiNet, n) }

// serve returns what a proxy has of its lnetd. Allocate returns the PIDs one after the other; register may be nil.
func serve(n uint32, pids []lnet.PID, register func(lnet.PID) error) *job.Proxy {
	return &job.Proxy{
		NID: func() (lnet.NID, error) { return address(n), nil },
		Allocate: func() (lnet.PID, error) {
			if len(pids) == 0 {
				return 0, errors.New("no PID is left")
			}
			pid := pids[0]
			pids = pids[1:]
			return pid, nil
		},
		Register: func(pid lnet.PID) error {
			if register == nil {
				return nil
			}
			return register(pid)
		},
	}
}

// start starts a job over MPI in memory. change may change the configuration of a rank, or return false if the rank
// does not start. It returns the jobs or errors of all ranks.
func start(t *testing.T, f *fake.Job, change func(rank int, c *job.Config) bool) ([]*job.Job, []error) {
	t.Helper()
	jobs, errs := make([]*job.Job, f.Size()), make([]error, f.Size())
	var all sync.WaitGroup
	for rank := range f.Size() {
		c := job.Config{
			Open: func() (boundary.MPI, error) { return f.Rank(rank), nil },
			Net:  mpiNet, Name: fmt.Sprint("host", rank), Driver: mpilnd.DefaultConfig(),
		}
		if change != nil && !change(rank, &c) {
			continue
		}
		all.Go(func() { jobs[rank], errs[rank] = job.Start(t.Context(), c) })
	}
	all.Wait()
	return jobs, errs
}

// end closes all jobs at once, and checks that MPI is closed.
func end(t *testing.T, jobs []*job.Job) {
	t.Helper()
	var all sync.WaitGroup
	for rank, j := range jobs {
		all.Go(func() {
			if err := j.Close(context.Background()); err != nil {
				t.Errorf("rank %d: %v", rank, err)
			}
		})
	}
	all.Wait()
}

// Clients without proxies agree on a PID. The address of each has the slot of the PID and the rank.
//
// MPI-7, MPI-12, MPI-13, MPI-15
func TestClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		jobs, errs := start(t, fake.New(3, fake.Options{}), nil)
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		pid := jobs[0].PID()
		if pid>>28 != 8 {
			t.Errorf("PID %#x, want bit 31 set, and bits 28 to 30 clear", uint32(pid))
		}
		slot := job.Slot(pid, job.DefaultRankBits)
		var want []job.Member
		for rank := range jobs {
			nid := address(slot<<job.DefaultRankBits | uint32(rank))
			want = append(want, job.Member{Rank: rank, NID: nid, PID: pid, Name: fmt.Sprint("host", rank)})
		}
		for rank, j := range jobs {
			if d := cmp.Diff(want, j.Table().Members(), cmp.Comparer(func(a, b lnet.NID) bool { return a == b })); d != "" {
				t.Errorf("rank %d: %s", rank, d)
			}
			if j.Self() != want[rank] {
				t.Errorf("rank %d is %+v", rank, j.Self())
			}
			for other := range want {
				at, ok := j.Table().Find(want[other].NID)
				if id, _ := j.Table().Process(at); !ok || at.Rank != other || id.NID != want[other].NID || id.PID != pid {
					t.Errorf("rank %d finds %s at %+v, with %+v there", rank, want[other].NID, at, id)
				}
			}
			if _, ok := j.Table().Find(address(1)); ok {
				t.Error("a NID of another application is in the table")
			}
			if _, ok := j.Table().Process(mpilnd.Place{Rank: 3}); ok {
				t.Error("there is a fourth process")
			}
		}
		end(t, jobs)
	})
}

// The proxy with the lowest rank allocates the PID, until it has a slot and the others can register it. Proxies
// have the NIDs of their NIs and the PID of servers.
//
// MPI-11, MPI-13, MPI-14
func TestProxies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const noSlot, taken, good = 0x80000400, 0x80000007, 0x81234409
		var asked []lnet.PID
		jobs, errs := start(t, fake.New(5, fake.Options{}), func(rank int, c *job.Config) bool {
			switch rank {
			case 1:
				c.Proxy = serve(0x0a000001, []lnet.PID{noSlot, taken, 12345, good}, func(lnet.PID) error {
					return errors.New("the first proxy has allocated the PID")
				})
			case 3:
				c.Proxy = serve(0x0a000002, nil, func(pid lnet.PID) error {
					asked = append(asked, pid)
					if pid == taken {
						return errors.New("another application has it")
					}
					return nil
				})
			case 4:
				c.Proxy = serve(0x0a000003, nil, nil)
			}
			return true
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		if want := []lnet.PID{taken, good}; !slices.Equal(asked, want) {
			t.Errorf("the second proxy was asked for %v, want %v", asked, want)
		}
		slot := uint32(9) << job.DefaultRankBits
		want := []lnet.ProcessID{
			{NID: address(slot), PID: good}, {NID: address(0x0a000001), PID: lnet.PIDLustre},
			{NID: address(slot | 2), PID: good}, {NID: address(0x0a000002), PID: lnet.PIDLustre},
			{NID: address(0x0a000003), PID: lnet.PIDLustre},
		}
		for rank, j := range jobs {
			for other := range want {
				if id, _ := j.Table().Process(mpilnd.Place{Rank: other}); id != want[other] {
					t.Errorf("rank %d: rank %d is %+v, want %+v", rank, other, id, want[other])
				}
			}
		}
		end(t, jobs)
	})
}

// If one process cannot start, all return an error, and none waits for another.
func TestDisagreement(t *testing.T) {
	for name, test := range map[string]struct {
		change func(rank int, c *job.Config)
		want   string // in the error of each rank
	}{
		"net": {func(rank int, c *job.Config) {
			if rank == 1 {
				c.Net = lnet.MakeNet(mpilnd.DefaultType, 1)
			}
		}, "rank 1 has the net"},
		"rank bits": {func(rank int, c *job.Config) { c.RankBits = 10 + rank }, "rank bits, rank 0 has"},
		"one NI": {func(rank int, c *job.Config) {
			if rank > 0 {
				c.Proxy = serve(0x0a000001, nil, nil)
			}
		}, "ranks 1 and 2 serve the same NI"},
		"no client": {func(rank int, c *job.Config) { c.Proxy = serve(0x0a000001+uint32(rank), nil, nil) }, "all processes are proxies"},
		"no PID": {func(rank int, c *job.Config) {
			if rank == 2 {
				c.Proxy = serve(0x0a000001, nil, nil)
			}
		}, "PID"},
		"refused": {func(rank int, c *job.Config) {
			if rank > 0 {
				c.Proxy = serve(0x0a000000+uint32(rank), slices.Repeat([]lnet.PID{0x80000001}, 64), func(lnet.PID) error {
					return errors.New("refused")
				})
			}
		}, "cannot register any of 64 PIDs"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, errs := start(t, fake.New(3, fake.Options{}), func(rank int, c *job.Config) bool {
					test.change(rank, c)
					return true
				})
				for rank, err := range errs {
					if err == nil || !strings.Contains(err.Error(), test.want) || errors.Is(err, lnd.ErrTimeout) {
						t.Errorf("rank %d: %v, want %q", rank, err, test.want)
					}
				}
			})
		})
	}
}

// TestConfig: a process with an invalid configuration does not wait for others.
func TestConfig(t *testing.T) {
	valid := serve(0x0a000001, nil, nil)
	for want, change := range map[string]func(c *job.Config){
		"Open is not set":    func(c *job.Config) { c.Open = nil },
		"RankBits is 21":     func(c *job.Config) { c.RankBits = 21 },
		"RankBits is 7":      func(c *job.Config) { c.RankBits = 7 },
		"must be set":        func(c *job.Config) { c.Proxy = &job.Proxy{NID: valid.NID} },
		"is not on the net":  func(c *job.Config) { c.Net++ },
		"is one of clients,": func(c *job.Config) { c.Proxy = serve(77, nil, nil) },
		"no NI yet": func(c *job.Config) {
			broken := *valid
			broken.NID = func() (lnet.NID, error) { return lnet.NID{}, errors.New("no NI yet") }
			c.Proxy = &broken
		},
	} {
		f := fake.New(1, fake.Options{})
		c := job.Config{Open: func() (boundary.MPI, error) { return f.Rank(0), nil }, Net: mpiNet, Proxy: valid}
		change(&c)
		if _, err := job.Start(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A process that never calls Start, or never calls Close, does not block the others for ever (mpilnd B.8).
func TestWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fake.New(3, fake.Options{})
		_, errs := start(t, f, func(rank int, _ *job.Config) bool { return rank != 1 })
		for _, rank := range []int{0, 2} {
			if !errors.Is(errs[rank], lnd.ErrTimeout) {
				t.Errorf("start of rank %d: %v", rank, errs[rank])
			}
		}
		f.Close()
	})
	synctest.Test(t, func(t *testing.T) {
		f := fake.New(2, fake.Options{})
		jobs, errs := start(t, f, func(_ int, c *job.Config) bool {
			c.Timeout = time.Second
			return true
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		if err := jobs[0].Close(t.Context()); !errors.Is(err, lnd.ErrTimeout) {
			t.Errorf("close: %v", err)
		}
		f.Close()
		if err := jobs[1].Close(t.Context()); !errors.Is(err, fake.ErrClosed) {
			t.Errorf("close of a job that has ended: %v", err)
		}
	})
}

// stuck is an MPI whose Close does not return until over is closed.
type stuck struct {
	boundary.MPI
	over chan struct{}
}

func (s stuck) Close() error {
	<-s.over
	return s.MPI.Close()
}

// If MPI does not close after all processes have finished, Close leaves it without an error (mpilnd B.7, B.8).
func TestMPIDoesNotClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, over := fake.New(2, fake.Options{}), make(chan struct{})
		jobs, errs := start(t, f, func(rank int, c *job.Config) bool {
			if rank == 1 {
				c.Open = func() (boundary.MPI, error) { return stuck{f.Rank(rank), over}, nil }
			}
			return true
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		end(t, jobs)
		if d := time.Since(begin); d != 10*time.Second {
			t.Errorf("Close returns after %s", d)
		}
		close(over)
	})
}

// An error of MPI ends the application if the program wants it.
//
// MPI-3
func TestAbort(t *testing.T) {
	for _, abort := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := fake.New(2, fake.Options{})
			jobs, errs := start(t, f, func(_ int, c *job.Config) bool {
				c.Abort = abort
				return true
			})
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
			n := open(t, jobs[0])
			f.FailNext(0, 1)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			_, err := n.Ping(ctx, lnet.ProcessID{NID: jobs[1].Self().NID}, node.PingOptions{})
			if err == nil || (f.Aborted() == 1) != abort {
				t.Errorf("with abort %t: status %d, %v", abort, f.Aborted(), err)
			}
			if err := n.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if f.Close(); jobs[0].Close(t.Context()) == nil || jobs[1].Close(t.Context()) == nil {
				t.Error("a job whose MPI has failed was closed without an error")
			}
		})
	}
}

// open opens a node over the driver of j.
func open(t *testing.T, j *job.Job) *node.Node {
	t.Helper()
	n, err := node.New(node.Config{PID: j.Self().PID})
	if err == nil {
		_, err = n.AddNI(t.Context(), j.Driver(), lnd.Config{NID: j.Self().NID})
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Nodes in all processes of a job ping each other. All end when the last client finishes.
//
// MPI-5, MPI-12
func TestTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const proxy = 2
		f := fake.New(4, fake.Options{Eager: 4096, Unexpected: 64, Delay: 50 * time.Microsecond, Shuffle: true})
		jobs, errs := start(t, f, func(rank int, c *job.Config) bool {
			if rank == proxy {
				c.Proxy = serve(0x0a000001, []lnet.PID{0x80000001}, nil)
			}
			return true
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		var nodes []*node.Node
		for _, j := range jobs {
			nodes = append(nodes, open(t, j))
		}
		for rank, n := range nodes {
			for _, m := range jobs[0].Table().Members() {
				if m.Rank == rank {
					continue
				}
				if _, err := n.Ping(t.Context(), lnet.ProcessID{NID: m.NID, PID: m.PID}, node.PingOptions{}); err != nil {
					t.Errorf("%s pings %s: %v", n.NID(), m.NID, err)
				}
			}
		}
		var finished atomic.Int32
		var computing sync.WaitGroup // of rank 1, which is late
		computing.Add(1)
		var all sync.WaitGroup
		for rank, j := range jobs {
			all.Go(func() {
				if rank == 1 {
					computing.Wait()
				}
				if err := j.Finish(t.Context()); err != nil {
					t.Errorf("rank %d: %v", rank, err)
				}
				finished.Add(1)
				if err := errors.Join(nodes[rank].Close(t.Context()), j.Close(t.Context())); err != nil {
					t.Errorf("rank %d: %v", rank, err)
				}
			})
		}
		synctest.Wait()
		if finished.Load() != 0 {
			t.Error("Finish returns before all clients have called it")
		}
		computing.Done()
		all.Wait()
	})
}
