package shim

import (
	"fmt"
	"strconv"
	"time"

	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
)

// Libraries for which the script build compiles shims.
const (
	OpenMPI = "openmpi"
	MPICH   = "mpich"
)

// Options are the options of Open.
type Options struct {
	// Dir is the directory of the shims. If it is empty, Open looks in the directory of the program, and then in
	// /usr/lib/lnetd.
	Dir string
	// Comm is the handle in Fortran (MPI_Comm_c2f) of the communicator that MPI.World duplicates. The program must
	// have initialized MPI, and finalizes it after MPI.Close. If Comm is nil, Open initializes MPI unless the program
	// has done so, and World duplicates MPI_COMM_WORLD.
	Comm *int32
	// Processes is the smallest number of processes that the job must have. 0 means 1.
	Processes int
	// Spin is how long Poll does not sleep after a request was started or has completed.
	Spin time.Duration
}

// launcher is the mpirun that has started this process.
type launcher struct {
	kind string // OpenMPI or MPICH, or "" if there is no mpirun or it may be that of any library
	size int    // number of processes that it has started, or 0 if that is unknown
}

// findLauncher returns the launcher, from the environment that getenv returns. Open MPI's mpirun sets
// OMPI_COMM_WORLD_SIZE, and that of MPICH (Hydra) PMI_SIZE. Other launchers set PMI_SIZE too, for libraries of both
// kinds.
func findLauncher(getenv func(string) string) launcher {
	if n, err := strconv.Atoi(getenv("OMPI_COMM_WORLD_SIZE")); err == nil {
		return launcher{OpenMPI, n}
	}
	n, err := strconv.Atoi(getenv("PMI_SIZE"))
	switch {
	case err != nil:
		return launcher{}
	case getenv("HYDI_CONTROL_FD") != "":
		return launcher{MPICH, n}
	}
	return launcher{"", n}
}

// mpirun describes the launcher in errors.
func (l launcher) mpirun() string {
	switch l.kind {
	case OpenMPI:
		return "Open MPI's mpirun"
	case MPICH:
		return "MPICH's mpirun"
	}
	return "a launcher"
}

// checkKind checks that a library of the given kind can run under the launcher.
func (l launcher) checkKind(kind string) error {
	known := kind == OpenMPI || kind == MPICH
	if known && l.kind != "" && l.kind != kind {
		return fmt.Errorf("%w: %s started it, but the library is %s", boundary.ErrLauncher, l.mpirun(), kind)
	}
	return nil
}

// checkSize checks the number of processes that the library has found. If the library does not understand the
// launcher, it finds one.
func (l launcher) checkSize(found int, o Options) error {
	if l.size > 1 && found == 1 {
		return fmt.Errorf("%w: %s started %d processes, but the library finds only this one", boundary.ErrLauncher, l.mpirun(), l.size)
	}
	if found < o.Processes {
		return fmt.Errorf("%w: the job has %d processes, at least %d are needed", boundary.ErrLauncher, found, o.Processes)
	}
	return nil
}
