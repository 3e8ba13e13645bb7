package boundary

import "errors"

// Errors that callers distinguish. The texts of those that opening a library returns say what to do.
var (
	// ErrTruncated means that a message was longer than the buffer of its receive. The message is lost.
	ErrTruncated = errors.New("the message is longer than the buffer of its receive")
	// ErrNotBuilt means that the program was built without support for MPI.
	ErrNotBuilt = errors.New("built without support for MPI: build with CGO_ENABLED=1 and `-tags mpi` (Debian package gcc)")
	// ErrNoLibrary means that the MPI library, or the shim for it, is not installed.
	ErrNoLibrary = errors.New("the MPI library or lnetd's shim for it is missing: install the library " +
		"(Debian packages openmpi-bin or mpich), and build the shims with `make mpi-shims` " +
		"(Debian packages libopenmpi-dev, libmpich-dev)")
	// ErrNoConnections means that an MPI library cannot connect jobs that were started separately.
	ErrNoConnections = errors.New("this MPI library does not support connections between jobs: " +
		"start the proxies and the application with one mpirun, or use Open MPI")
	// ErrNoParent means that no other job has started this one.
	ErrNoParent = errors.New("no MPI application has started this process by MPI_Comm_spawn")
	// ErrThreads means that the program has initialized MPI in a way that forbids LNet's thread to call it.
	ErrThreads = errors.New("the program has initialized MPI without MPI_THREAD_MULTIPLE, which LNet's thread needs")
	// ErrNotInitialized means that the program's MPI cannot be used, because it is not initialized or was finalized.
	ErrNotInitialized = errors.New("the program must start LNet after MPI_Init_thread and before MPI_Finalize")
	// ErrLauncher means that the program was not started by the mpirun of its MPI library, so that each process would
	// be alone in a job.
	ErrLauncher = errors.New("start the program with the mpirun of the MPI library that it uses")
)
