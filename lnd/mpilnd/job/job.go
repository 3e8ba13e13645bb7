package job

import (
	"context"
	"errors"
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
	mpi    *rendezvous
	ended  chan struct{} // closed when the goroutine of MPI has ended
	err    error         // its result
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
	j := &Job{config: c, ended: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // until the goroutine ends, and with it the thread
		err := j.start()
		started <- err
		if err == nil {
			j.err = j.run()
			close(j.ended)
		}
	}()
	ctx, cancel := watchdog(ctx, j.config.Timeout)
	defer cancel()
	var err error
	select {
	case err = <-started:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("job: start: %w", err)
	}
	return j, nil
}

// watchdog returns a context that ends after a time.
func watchdog(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, fmt.Errorf("other processes of the job have not followed within %s: %w", d, lnd.ErrTimeout))
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
	j.rank, j.mpi = comm.Rank(), newRendezvous(m, comm)
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
	return j.mpi.start(s.all)
}

// run runs the driver until Close, and ends MPI together with the other processes.
func (j *Job) run() error {
	if err := j.driver.Run(); err != nil {
		return err
	}
	if err := j.mpi.comm.Barrier(); err != nil {
		return fmt.Errorf("barrier: %w", err)
	}
	return errors.Join(j.driver.Drain(), j.mpi.Close())
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

// Close ends MPI in this process. The interface must be closed before. Close is collective: it blocks until all
// processes have called it, until Config.Timeout has passed, or until ctx is done. It calls Finish first. After an error,
// also one that wraps lnd.ErrTimeout, MPI is not closed, and the process should end with a status that is not 0.
// Close may be called once.
func (j *Job) Close(ctx context.Context) error {
	ctx, cancel := watchdog(ctx, j.config.Timeout)
	defer cancel()
	err := j.Finish(ctx)
	j.driver.Close()
	if err == nil {
		select {
		case <-j.ended:
			err = j.err
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	if err != nil {
		return fmt.Errorf("job: close: %w", err)
	}
	return nil
}
