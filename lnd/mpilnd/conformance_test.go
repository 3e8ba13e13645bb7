package mpilnd

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/lndtest"
	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
	"github.com/lnetd/lnetd/lnd/mpilnd/boundary/fake"
	"github.com/lnetd/lnetd/lnet"
)

// TestConformance runs the suite that all drivers share, over MPI in memory. MPI reports completions late and in a random
// order, and has memory for few messages.
//
// A process of MPI cannot be replaced: World.Renew is nil, and a restart is one of the interface. SetLink is nil since
// MPI knows no state of a link. Allocations are not counted, because the fake allocates.
//
// MPI-10, MPI-19
func TestConformance(t *testing.T) {
	for name, o := range map[string]fake.Options{
		"orderly": {Eager: 4096, Unexpected: 64},
		"hard":    {Seed: 1, Eager: 100, Unexpected: 4, Delay: 100 * time.Microsecond, Shuffle: true},
		"eager":   {Seed: 2, Eager: lnet.MTU, Unexpected: 1 << 20, MaxTag: 1<<31 - 1, Delay: 100 * time.Microsecond, Shuffle: true},
	} {
		if testenv.Race && name != "hard" { // the others run the same goroutines
			continue
		}
		t.Run(name, func(t *testing.T) {
			lndtest.Run(t, lndtest.Harness{
				New:         func(t *testing.T, n int) *lndtest.World { return newJob(t, n, o).world() },
				Bubble:      synctest.Test,
				Settle:      synctest.Wait,
				Patience:    10 * time.Minute,
				Chain:       500,
				MaxUnplaced: 8,
				Ordered:     true,
			})
		})
	}
}

var mpi = lnet.MakeNet(DefaultType, 0)

func nid(k int) lnet.NID { return lnet.NIDFromNumber(mpi, uint32(1<<14+k)) }

// ranks are Peers whose numbers are their ranks.
type ranks int

func (n ranks) Find(nid lnet.NID) (Place, bool) {
	k := int(nid.Number()) - 1<<14
	return Place{Rank: k}, nid.Net() == mpi && k >= 0 && k < int(n)
}

func (n ranks) Process(at Place) (lnet.ProcessID, bool) {
	return lnet.ProcessID{NID: nid(at.Rank), PID: lnet.PIDLustre}, at.Rank < int(n)
}

// job is a job with a driver in each process.
type job struct {
	*fake.Job
	wires   *wires
	drivers []*Driver
	running sync.WaitGroup
}

func newJob(t *testing.T, n int, o fake.Options, change ...func(c *Config)) *job {
	t.Helper()
	j := &job{Job: fake.New(n, o), wires: newWires(n), drivers: make([]*Driver, n)}
	var ready sync.WaitGroup
	for k := range n {
		ready.Add(1)
		j.running.Go(func() {
			runtime.LockOSThread()
			m := j.wires.wrap(k, j.Rank(k))
			comm, err := m.World()
			if err != nil {
				t.Error(err)
			}
			m.comm = comm
			c := DefaultConfig()
			c.MPI, c.Comms, c.Peers = m, []boundary.Comm{wired{comm, m}}, ranks(n)
			for _, f := range change {
				f(&c)
			}
			if j.drivers[k], err = New(c); err != nil {
				t.Error(err)
			}
			ready.Done()
			_ = j.drivers[k].Run() // an error if the test makes MPI fail
		})
	}
	ready.Wait()
	return j
}

func (j *job) close() {
	for _, d := range j.drivers {
		d.Close()
	}
	j.running.Wait()
}

// patient is an upper whose LND timeout is short enough for the simulated minutes of the suite.
type patient struct{ lnd.Upper }

func (patient) LNDTimeout() time.Duration { return 10 * time.Second }

func (j *job) world() *lndtest.World {
	opened := make([]bool, len(j.drivers))
	return &lndtest.World{
		NID: nid,
		Open: func(ctx context.Context, k int, u lnd.Upper) (lnd.Interface, error) {
			if opened[k] {
				j.wires.drop(k)
			}
			opened[k] = true
			return j.drivers[k].Open(ctx, lnd.Config{NID: nid(k), Upper: patient{u}})
		},
		Close:    j.close,
		Kill:     j.wires.kill,
		Isolate:  j.wires.hold,
		Hold:     j.wires.hold,
		CutAfter: func(a, b, n int) { j.wires.cutAfter(pair{a, b}, n) },
	}
}
