// Package job starts and ends LNet in the processes of an MPI job (mpilnd B.3, B.4, B.7). Start is collective. Each
// process announces its role, client or proxy. All processes learn the PID of the application, and the table of NIDs
// and ranks. Then each has a driver (package mpilnd), which the caller opens an interface with.
//
// MPI belongs to one goroutine of the Job, locked to its thread: it opens the library, makes the collective calls, runs
// the driver, and closes the library. Collective calls cannot be interrupted, since they block in C. Start and Close
// therefore wait for that goroutine with a watchdog, and give it up if it is late (mpilnd B.8).
package job
