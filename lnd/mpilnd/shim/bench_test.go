//go:build mpi && cgo

package shim_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
	"github.com/lnetd/lnetd/lnd/mpilnd/shim"
)

// load is what two ranks do: round trips of messages with a size, or, if window is not 0, messages in one direction,
// with so many in flight. pool is the number of receives for other messages. Idle ranks do nothing for a time.
type load struct {
	size, rounds, window, pool int
	spin, idle                 time.Duration
}

func (l load) String() string {
	return fmt.Sprint(l.size, l.rounds, l.window, l.pool, int64(l.spin), int64(l.idle))
}

// measure runs the load in the environment as one of two ranks. Rank 0 prints the nanoseconds of a round trip or
// message, or the part of a processor that an idle rank uses, in percent.
func measure() error {
	var l load
	var spin, idle int64
	if _, err := fmt.Sscan(os.Getenv(loads), &l.size, &l.rounds, &l.window, &l.pool, &spin, &idle); err != nil {
		return err
	}
	l.spin, l.idle = time.Duration(spin), time.Duration(idle)
	m, c, err := open("", shim.Options{Processes: 2, Spin: l.spin})
	if err != nil {
		return err
	}
	p := &pair{Comm: c, m: m, l: l, in: make([]byte, l.size), out: make([]byte, l.size)}
	for k := range l.pool {
		err = errors.Join(err, c.Receive(boundary.Any, 3, make([]byte, 8192), uint64(pool+k)))
	}
	if err = errors.Join(err, c.Barrier()); err != nil {
		return err
	}
	figure, err := p.run()
	if err = errors.Join(err, c.Barrier()); err != nil {
		return err
	}
	if c.Rank() == 0 {
		fmt.Println(figure)
	}
	for k := range l.pool {
		err = errors.Join(err, c.Cancel(uint64(pool+k)))
	}
	return errors.Join(err, p.wait(l.pool), m.Close())
}

// loads is the environment variable with the load of measure. pool is the first ID of its receives for other messages.
const (
	loads = "LNETD_TEST_MPI_LOAD"
	pool  = 1 << 20
)

// pair is one of two ranks.
type pair struct {
	boundary.Comm
	m       boundary.MPI
	l       load
	in, out []byte
	last    uint64
}

func (p *pair) run() (figure float64, err error) {
	if p.l.idle > 0 {
		return p.runIdle()
	}
	begin := time.Now()
	if p.l.window > 0 {
		err = p.stream()
	} else {
		err = p.pingPong()
	}
	return float64(time.Since(begin).Nanoseconds()) / float64(p.l.rounds), err
}

// runIdle returns the part of a processor that the process uses.
func (p *pair) runIdle() (percent float64, err error) {
	before := processorTime()
	end := time.AfterFunc(p.l.idle, p.m.Wake)
	defer end.Stop()
	var done [1]boundary.Done
	if n, err := p.m.Poll(done[:], time.Hour); n != 0 || err != nil {
		return 0, fmt.Errorf("poll: %d, %w", n, err)
	}
	return 100 * float64(processorTime()-before) / float64(p.l.idle), nil
}

func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// wait waits until n more requests are complete.
func (p *pair) wait(n int) error {
	var done [64]boundary.Done
	for n > 0 {
		got, err := p.m.Poll(done[:], patience)
		if err != nil || got == 0 {
			return fmt.Errorf("%d requests are incomplete: %w", n, err)
		}
		for _, d := range done[:got] {
			if d.Err != nil {
				return d.Err
			}
		}
		n -= got
	}
	return nil
}

func (p *pair) send(tag int) error {
	p.last++
	return p.Send(1-p.Rank(), tag, p.out, p.last)
}

func (p *pair) receive(tag int) error {
	p.last++
	return p.Receive(1-p.Rank(), tag, p.in, p.last)
}

func (p *pair) pingPong() error {
	for range p.l.rounds {
		var err error
		if p.Rank() == 0 {
			err = errors.Join(p.receive(1), p.send(1), p.wait(2))
		} else {
			err = errors.Join(p.receive(1), p.wait(1), p.send(1), p.wait(1))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *pair) stream() error {
	start := p.send
	if p.Rank() == 1 {
		start = p.receive
	}
	for k := 0; k < p.l.rounds; k += p.l.window {
		for range p.l.window {
			if err := start(2); err != nil {
				return err
			}
		}
		if err := p.wait(p.l.window); err != nil {
			return err
		}
	}
	return p.Barrier()
}

// BenchmarkLoads runs two ranks of each library, and the plainest program in C beside them.
func BenchmarkLoads(b *testing.B) {
	const spin = time.Millisecond
	for _, i := range installations {
		b.Run(i.kind, func(b *testing.B) {
			dir := build(b, i)
			floor := filepath.Join(dir, "floor")
			if out, err := exec.Command("mpicc."+i.kind, "-O2", "-o", floor, "testdata/floor.c").CombinedOutput(); err != nil {
				b.Fatalf("%v\n%s", err, out)
			}
			for _, c := range []struct {
				name, unit string
				l          load
				perSecond  float64 // if not 0, the figure is this, in a second
			}{
				{"Idle", "%CPU", load{idle: 3 * time.Second, pool: 256}, 0},
				{"Waiting32B", "ns/trip", load{size: 32, rounds: 1000, pool: 256}, 0},
				{"Spinning32B", "ns/trip", load{size: 32, rounds: 50000, spin: spin}, 0},
				{"SpinningPool32B", "ns/trip", load{size: 32, rounds: 50000, spin: spin, pool: 256}, 0},
				{"Spinning8KiB", "ns/trip", load{size: 8 << 10, rounds: 20000, spin: spin}, 0},
				{"Spinning1MiB", "MB/s", load{size: 1 << 20, rounds: 2048, window: 8, spin: spin}, 1 << 20},
			} {
				figure := func(out string, err error) float64 {
					var x float64
					if _, e := fmt.Sscan(out, &x); err != nil || e != nil {
						b.Fatalf("%v\n%s", errors.Join(err, e), out)
					}
					if c.perSecond != 0 {
						x = c.perSecond / x * 1e3
					}
					return x
				}
				b.Run(c.name, func(b *testing.B) {
					var goes, floors float64
					for range b.N {
						goes += figure(start(b, i, 2, []string{role + "=measure", shims + "=" + dir, loads + "=" + c.l.String()}, os.Args[0]))
						if c.l.spin > 0 {
							floors += figure(start(b, i, 2, nil, floor, fmt.Sprint(c.l.size), fmt.Sprint(c.l.rounds), fmt.Sprint(c.l.window)))
						}
					}
					b.ReportMetric(0, "ns/op")
					b.ReportMetric(goes/float64(b.N), c.unit)
					if c.l.spin > 0 {
						b.ReportMetric(floors/float64(b.N), "C-"+c.unit)
					}
				})
			}
		})
	}
}
