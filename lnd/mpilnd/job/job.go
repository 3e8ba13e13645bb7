package job

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/mpilnd"
	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
	"github.com/lnetd/lnetd/lnet"
)

// Job is LNet in one process of an MPI job. Its methods may be called from any goroutine.
type Job struct {
	config Config
	pid    lnet.PID
	rank   int
	table  *Table
	driver *mpilnd.Driver
	mpi    *leaver
	ended  chan error // holds the result of the goroutine of MPI
}

// Start opens MPI and agrees with the other processes of the job on PID and NIDs. It is collective: it blocks until all
// processes have called it, or until Config.Timeout has passed or ctx is done. Then it returns an error that wraps
// lnd.ErrTimeout or the cause of ctx, and the goroutine of MPI stays blocked: the process should end with a status that
// is not 0, which makes mpirun end the others. After success, the caller opens an interface of Driver with NID, and
// calls Close at the end.
func Start(ctx context.Context, c Config) (*Job, error) {
	if err := c.resolve(); err != nil {
		return nil, fmt.Errorf("job: start: %w", err)
	}
	j := &Job{config: c, ended: make(chan error, 1)}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // until the goroutine ends, and with it the thread
		err := j.start()
		started <- err
		if err == nil {
			j.ended <- j.run()
		}
	}()
	if err := await(ctx, started, c.Timeout); err != nil {
		return nil, fmt.Errorf("job: start: %w", err)
	}
	return j, nil
}

// await returns what arrives in result, or an error if nothing arrives in time.
func await(ctx context.Context, result <-chan error, timeout time.Duration) error {
	watchdog := time.NewTimer(timeout)
	defer watchdog.Stop()
	select {
	case err := <-result:
		return err
	case <-watchdog.C:
		return fmt.Errorf("other processes of the job have not followed within %s: %w", timeout, lnd.ErrTimeout)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// start opens MPI and creates the driver. It runs in the goroutine of MPI.
func (j *Job) start() error {
	m, err := j.config.Open()
	if err != nil {
		return err
	}
	comm, err := m.World()
	if err != nil {
		return fmt.Errorf("duplicate the communicator: %w", err)
	}
	j.rank, j.mpi = comm.Rank(), &leaver{MPI: m, comm: comm, left: make(chan struct{})}
	s := starter{config: &j.config, comm: comm}
	if j.table, j.pid, err = s.exchange(); err != nil {
		return err
	}
	j.config.Driver.MPI, j.config.Driver.Comms = j.mpi, []boundary.Comm{comm}
	j.config.Driver.Peers, j.config.Driver.Type = j.table, j.config.Net.Type()
	j.config.Driver.PID, j.config.Driver.Proxy = j.Self().PID, j.Self().Proxy
	if j.config.Abort {
		j.config.Driver.Fault = func(error) { comm.Abort(1) }
	}
	if j.driver, err = mpilnd.New(j.config.Driver); err != nil {
		return err
	}
	if j.Self().Proxy {
		return j.mpi.watch(j.table)
	}
	return nil
}

// run runs the driver until Close, and ends MPI together with the other processes.
func (j *Job) run() error {
	if err := j.driver.Run(); err != nil {
		return err
	}
	var err error
	if j.Self().Proxy {
		err = j.mpi.drain(func() bool { return j.mpi.waiting == 0 })
	} else {
		err = j.mpi.leave(j.table)
	}
	if err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	if err := j.mpi.comm.Barrier(); err != nil {
		return fmt.Errorf("barrier: %w", err)
	}
	return j.mpi.Close()
}

// Driver returns the driver, which has at most one interface at a time.
func (j *Job) Driver() *mpilnd.Driver { return j.driver }

// Self returns this process.
func (j *Job) Self() Member { return j.table.members[j.rank] }

// PID returns the PID of the application, which all clients have.
func (j *Job) PID() lnet.PID { return j.pid }

// Table returns the table of all processes.
func (j *Job) Table() *Table { return j.table }

// Library returns the name and the version of the MPI library.
func (j *Job) Library() string { return j.mpi.Library() }

// Left is closed when all clients have called Close, so that a proxy can end. In clients it stays open.
func (j *Job) Left() <-chan struct{} { return j.mpi.left }

// Close ends MPI in this process. The interface must be closed before. Close is collective: it blocks until all
// processes have called it, until Config.Timeout has passed, or until ctx is done. After an error, also one that wraps
// lnd.ErrTimeout, MPI is not closed, and the process should end with a status that is not 0. Close may be called once.
func (j *Job) Close(ctx context.Context) error {
	j.driver.Close()
	if err := await(ctx, j.ended, j.config.Timeout); err != nil {
		return fmt.Errorf("job: close: %w", err)
	}
	return nil
}
