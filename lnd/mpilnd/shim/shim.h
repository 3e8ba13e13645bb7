// The functions of a shim: a shared object that is compiled for one MPI library. Their arguments are integers and
// pointers, so a program without that library's headers can call them.
//
// Functions that return an int return 0 or a count, or an error code of MPI, negated. One thread calls all functions
// but wake. A process can open a shim once.
//
// A communicator is a number: 0 is the duplicate of MPI_COMM_WORLD or of the communicator that was passed, others are
// inter-communicators.
#ifndef LNETD_MPI_SHIM_H
#define LNETD_MPI_SHIM_H

#include <stdint.h>

enum { SHIM_ABI = 4 };

// A completion. slot is that of the request. receive, cancelled and truncated are 0 or 1, error is an error code of MPI
// or 0. length, from and tag are those of the message, if a receive has one.
typedef struct {
	uint64_t id;
	int64_t length;
	int32_t slot, receive, from, tag, cancelled, truncated, error;
} shim_done;

typedef struct {
	int32_t initialized; // whether open has initialized the library
	int32_t level;       // threads that may use the library: the caller of open (0), one at a time (1), all (2)
	int32_t world;       // the size of MPI_COMM_WORLD
	int32_t max_tag;
	int32_t max_host; // longest name of a host for spawn, in bytes
} shim_opened;

typedef struct {
	int32_t abi;
	const char *kind; // "openmpi", "mpich" or "other"
	// With passed, the library must have been initialized, and comm is a communicator's handle in Fortran. 1 means that
	// the library was not initialized although it must have been, or was finalized. error must not be called then.
	int (*open)(int passed, int32_t comm, shim_opened *out);
	int (*dup)(int32_t *rank, int32_t *size); // creates communicator 0; collective
	// A library that does not support connections between jobs makes open_port, join and spawn return its error code, not
	// negated. open_port writes the name of a new port.
	int (*open_port)(char *name, int size);
	// join waits for a job that connects to the port of rank 0 of communicator 0, or connects to the port; collective.
	int (*join)(int accept, const char *port, int32_t *comm, int32_t *size);
	// spawn starts a program, one process on each of the hosts, and connects to their job. words are the program and
	// its arguments, n strings one after the other, and hosts the names of the hosts, of max_host bytes at most.
	// Collective; words, hosts and processes are those of rank 0.
	int (*spawn)(const char *words, int n, const char *hosts, int processes, int32_t *comm, int32_t *size);
	// parent returns the connection with the job that has spawned this one, or 1 if none has.
	int (*parent)(int32_t *comm, int32_t *size);
	int (*disconnect)(int comm); // collective over both jobs
	int (*send)(int comm, uintptr_t b, int n, int to, int tag, uint64_t id, int slot);
	int (*receive)(int comm, uintptr_t b, int n, int from, int tag, uint64_t id, int slot); // from -1: any rank
	int (*cancel)(uint64_t id);  // returns 1 if no receive has the ID
	int (*poll)(shim_done *out, int max, int64_t wait_ns, int64_t spin_ns); // spin_ns after the last request or completion
	void (*wake)(void); // of any thread
	int (*barrier)(void); // of communicator 0, as the following ones
	int (*broadcast)(uintptr_t b, int n, int root);
	int (*gather)(uintptr_t b, int n, uintptr_t all, int root);
	void (*abort)(int status);
	int (*close)(void);
	void (*error)(int code, char *text, int size); // code is not negated
	void (*version)(char *text, int size);
} shim;

// The symbol that a shim exports: shim_table.
typedef const shim *shim_table_fn(void);

#endif
