package mpi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/mpilnd"
	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
	"github.com/lnetd/lnetd/lnd/mpilnd/job"
	"github.com/lnetd/lnetd/lnd/mpilnd/shim"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// Config configures Init. The zero value is usable. Net and RankBits must be the same in all processes, including proxies.
type Config struct {
	// Net is the net over MPI. 0 means number 0 of the type mpilnd.DefaultType.
	Net lnet.Net
	// Library is the MPI library: shim.OpenMPI, shim.MPICH, or the path of a shim. If it is empty, it is that of the
	// mpirun that has started the process.
	Library string
	// Shim are the options for opening the library.
	Shim shim.Options
	// Node is the configuration of the node. Init sets PID.
	Node node.Config
	// Port is the port of proxies that are a separate job, to which the application connects: its name, or file:
	// and the path of a file with the name. If it is empty, it is the value of the environment variable LNET_MPI_PORT;
	// if that is empty too, proxies are ranks of this job. It must be empty in all processes, or in none.
	Port string
	// Spawn are the hosts and the program of proxies that Init starts, in rank 0: hosts separated by commas, and
	// behind them perhaps the program and its options. If it is empty, it is the value of the environment variable
	// LNET_MPI_SPAWN. It must be empty in all processes, or in none.
	Spawn string
	// Prepare, if not nil, is called with the node before other processes can send to it. It opens inboxes and attaches
	// match entries for their messages.
	Prepare func(n *node.Node) error
	// Driver is the configuration of the driver, or nil for the defaults. See job.Config.
	Driver *mpilnd.Config
	// RankBits, Timeout and Abort are those of job.Config.
	RankBits int
	Timeout  time.Duration
	Abort    bool
}

// ErrConfig means that a Config, or an environment variable that Init reads, is invalid.
var ErrConfig = errors.New("invalid configuration")

// Process is LNet in one process of an application. Its methods may be called from any goroutine.
type Process struct {
	job  *job.Job
	node *node.Node
}

// Init starts LNet in this process. It is collective over all processes of the job, and those of the job of proxies that
// it connects to. It blocks until they have called it, or until Config.Timeout has passed or ctx is done. It initializes
// MPI, unless the program has done so with MPI_THREAD_MULTIPLE. After an error the process should end with a status that
// is not 0, which makes mpirun end the others. Init succeeds once in a process.
//
// Errors wrap ErrConfig if the proxies that c or the environment names are invalid, boundary.ErrNotBuilt, boundary.ErrNoLibrary or boundary.ErrLauncher if MPI cannot be used,
// boundary.ErrThreads if the program has initialized MPI without MPI_THREAD_MULTIPLE, boundary.ErrNotInitialized if it
// has passed a communicator before it initialized MPI or has finalized MPI, boundary.ErrNoConnections if the library
// cannot connect or spawn jobs, and lnd.ErrTimeout if other processes have not called Init in time.
func Init(ctx context.Context, c Config) (*Process, error) {
	return start(ctx, c, func() (boundary.MPI, error) { return shim.Open(c.Library, c.Shim) })
}

// start is Init with any MPI.
func start(ctx context.Context, c Config, open func() (boundary.MPI, error)) (*Process, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("mpi: %w", err)
	}
	driver := mpilnd.DefaultConfig()
	if c.Driver != nil {
		driver = *c.Driver
	}
	connect, spawn, err := c.proxies()
	if err != nil {
		return nil, err
	}
	j, err := job.Start(ctx, job.Config{
		Open: open, Net: cmp.Or(c.Net, lnet.MakeNet(mpilnd.DefaultType, 0)), Name: host,
		RankBits: c.RankBits, Timeout: c.Timeout, Driver: driver, Abort: c.Abort, Connect: connect, Spawn: spawn,
	})
	if err != nil {
		return nil, fmt.Errorf("mpi: %w", err)
	}
	c.Node.PID = j.PID()
	n, err := node.New(c.Node)
	if err != nil {
		return nil, fmt.Errorf("mpi: %w", err)
	}
	if c.Prepare != nil {
		err = c.Prepare(n)
	}
	if err == nil {
		_, err = n.AddNI(ctx, j.Driver(), lnd.Config{NID: j.Self().NID})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("mpi: %w", err), n.Close(context.WithoutCancel(ctx)))
	}
	return &Process{job: j, node: n}, nil
}

// proxies returns how to reach proxies that are not ranks of this job. At most one of the results is not nil.
func (c *Config) proxies() (connect func(ctx context.Context) (string, error), spawn *boundary.Program, err error) {
	port, portName := setting(c.Port, "Config.Port", job.PortVariable)
	program, spawnName := setting(c.Spawn, "Config.Spawn", job.SpawnVariable)
	switch {
	case port != "" && program != "":
		return nil, nil, fmt.Errorf("mpi: %w: %s and %s exclude each other", ErrConfig, portName, spawnName)
	case port != "":
		return job.Port(port), nil, nil
	case program != "":
		if spawn, err = job.ParseSpawn(program); err != nil {
			return nil, nil, fmt.Errorf("mpi: %w: %s: %w", ErrConfig, spawnName, err)
		}
	}
	return nil, spawn, nil
}

// setting returns the value of a field of Config, or of an environment variable if it is empty, and the name of the one
// that it returns.
func setting(value, field, variable string) (setting, name string) {
	if value != "" {
		return value, field
	}
	return os.Getenv(variable), variable
}

// Node returns the node of this process. The caller must not close it.
func (p *Process) Node() *node.Node { return p.node }

// Members returns all processes of the job, ranks of the application and proxies, in the order of their ranks. Proxies of
// another job are the last ones. The caller must not change them.
func (p *Process) Members() []job.Member { return p.job.Table().Members() }

// Self returns this process.
func (p *Process) Self() job.Member { return p.job.Self() }

// Library returns the name and the version of the MPI library.
func (p *Process) Library() string { return p.job.Library() }

// Finish blocks until all ranks of the application have called it, like a barrier. Until then, the node answers
// others. It returns an error if ctx is done, or if MPI has failed.
func (p *Process) Finish(ctx context.Context) error {
	if err := p.job.Finish(ctx); err != nil {
		return fmt.Errorf("mpi: finish: %w", err)
	}
	return nil
}

// Close closes the node, and ends MPI if Init has initialized it. It is collective, and calls Finish first. It blocks
// until all processes have called it, until Config.Timeout has passed, or until ctx is done. After an error the process
// should end with a status that is not 0. Close may be called once.
func (p *Process) Close(ctx context.Context) error {
	err := errors.Join(p.Finish(ctx), p.node.Close(ctx))
	if err == nil {
		err = p.job.Close(ctx)
	}
	return err
}
