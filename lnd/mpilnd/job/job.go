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
	self   int // index in the table
	table  *Table
	driver *mpilnd.Driver
	mpi    *rendezvous
	idle   chan struct{} // closed when nothing is left to do but to close MPI
	ended  chan struct{} // closed when the goroutine of MPI has ended
	err    error         // its result
}

// closeTimeout is how long MPI may take to close after all processes have left the last barrier. MPICH 4.0.2 sometimes
// waits forever in MPI_Finalize (mpilnd B.8).
const closeTimeout = 10 * time.Second

// Start opens MPI, connects to another job if Config.Connect or Config.Listen is set, and agrees with the other processes
// on PID and NIDs. It is collective: it blocks until all processes of the job, or of both jobs, have called it, or until
// Config.Timeout has passed or ctx is done. Then it returns an error that wraps
// lnd.ErrTimeout or the cause of ctx, and the goroutine of MPI stays blocked: the process should end with a status that
// is not 0, which makes mpirun end the others. After success, the caller opens an interface of Driver with NID, and
// calls Close at the end.
func Start(ctx context.Context, c Config) (*Job, error) {
	if err := c.resolve(); err != nil {
		return nil, fmt.Errorf("job: start: %w", err)
	}
	j := &Job{config: c, idle: make(chan struct{}), ended: make(chan struct{})}
	ctx, cancel := watchdog(ctx, j.config.Timeout)
	defer cancel()
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // until the goroutine ends, and with it the thread
		err := j.start(ctx)
		started <- err
		if err == nil {
			j.err = j.run()
			close(j.ended)
		}
	}()
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
func (j *Job) start(ctx context.Context) error {
	m, err := j.config.Open()
	if err != nil {
		return err
	}
	comm, err := m.World()
	if err != nil {
		return fmt.Errorf("duplicate the communicator: %w", err)
	}
	s := starter{config: &j.config, mpi: m, comm: comm}
	if j.table, j.pid, err = s.exchange(ctx); err != nil {
		return err
	}
	j.self = s.groups[0].first + comm.Rank()
	j.mpi = &rendezvous{MPI: m, comms: []boundary.Comm{comm}, table: j.table, self: j.self, left: make(chan struct{})}
	if s.other != nil {
		j.mpi.comms = append(j.mpi.comms, s.other)
		if comm.Rank() == 0 {
			j.mpi.beats = &beats{m: m, other: s.other, tag: j.mpi.tag() - 1, limit: j.config.Timeout, fatal: j.Self().Proxy}
		}
	}
	j.config.Driver.MPI, j.config.Driver.Comms = j.mpi, j.mpi.comms
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
	if err := j.mpi.comms[0].Barrier(); err != nil {
		return fmt.Errorf("barrier: %w", err)
	}
	if err := j.mpi.meet(); err != nil {
		return err
	}
	if err := errors.Join(j.driver.Drain(), j.mpi.disconnect()); err != nil {
		return err
	}
	close(j.idle)
	return j.mpi.Close()
}

// Driver returns the driver, which has at most one interface at a time.
func (j *Job) Driver() *mpilnd.Driver { return j.driver }

// Self returns this process.
func (j *Job) Self() Member { return j.table.members[j.self] }

// PID returns the PID of the application, which all clients have.
func (j *Job) PID() lnet.PID { return j.pid }

// Table returns the table of all processes.
func (j *Job) Table() *Table { return j.table }

// Library returns the name and the version of the MPI library.
func (j *Job) Library() string { return j.mpi.Library() }

// Close ends MPI in this process. The interface must be closed before. Close is collective: it blocks until all
// processes have called it, until Config.Timeout has passed, or until ctx is done. It calls Finish first. After an error,
// also one that wraps lnd.ErrTimeout, MPI is not closed, and the process should end with a status that is not 0.
// If MPI does not close within ten seconds after all processes have left the last barrier, Close returns without an error
// and leaves it: nothing is lost, and the process should end. Close may be called once.
func (j *Job) Close(ctx context.Context) error {
	ctx, cancel := watchdog(ctx, j.config.Timeout)
	defer cancel()
	err := j.Finish(ctx)
	j.driver.Close()
	if err == nil {
		err = j.awaitEnd(ctx)
	}
	if err != nil {
		return fmt.Errorf("job: close: %w", err)
	}
	return nil
}

// awaitEnd waits until the goroutine of MPI has ended, or until nothing has been left to it for closeTimeout.
func (j *Job) awaitEnd(ctx context.Context) error {
	select {
	case <-j.idle:
		select {
		case <-j.ended:
			return j.err
		case <-time.After(closeTimeout):
			return nil
		}
	case <-j.ended:
		return j.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
