// Stands for an application that has initialized MPI before LNet starts, and uses MPI_COMM_WORLD beside it. It is loaded
// before a program with LNet (LD_PRELOAD), whose Go code cannot call MPI itself.
//
// While LNet runs, a thread of the application makes collective calls on MPI_COMM_WORLD, sends messages on it and
// receives them with any tag, and makes errors, which its own error handler gets. The functions below that MPI has too
// record what LNet calls: with MPI_COMM_WORLD, LNet may ask for rank, size and the largest tag, and duplicate it. The
// application calls MPI by the names of its profiling interface.
//
// With APPLICATION_LEVEL, the application only initializes MPI with less than MPI_THREAD_MULTIPLE. With LIBRARY_LEVEL,
// LNet initializes MPI, and the library grants no more than that, and prints what it grants.
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LEAST_ROUNDS = 10, PAUSE_US = 500, TAG = 1 };

static MPI_Errhandler own;
static pthread_t thread;
static atomic_int running, over, handled;
static int rounds;

static void end(const char *why) {
	printf("application: %s\n", why);
	(void)fflush(stdout);
	PMPI_Abort(MPI_COMM_WORLD, 1);
}

static void check(int rc, const char *what) {
	if (rc) end(what);
}

static void handle(MPI_Comm *c, int *code, ...) {
	if (*c == MPI_COMM_WORLD && *code) handled++;
}

// exchange makes one round of calls, and returns whether all processes want to end.
static int exchange(int rank, int size) {
	int sum = 0, all = 0, in = -1, stop = over && rounds >= LEAST_ROUNDS;
	check(PMPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD), "MPI_Allreduce failed");
	if (sum != size * (size - 1) / 2) end("MPI_Allreduce returned a wrong sum");
	check(PMPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, TAG, &in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG,
		MPI_COMM_WORLD, MPI_STATUS_IGNORE), "MPI_Sendrecv failed");
	if (in != (rank + size - 1) % size) end("a message of another sender has arrived on MPI_COMM_WORLD");
	int before = handled;
	if (!PMPI_Send(&rank, 1, MPI_INT, size, TAG, MPI_COMM_WORLD)) end("MPI_Send to no rank succeeded");
	if (handled != before + 1) end("the error handler of MPI_COMM_WORLD was not called");
	check(PMPI_Allreduce(&stop, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD), "MPI_Allreduce failed");
	return all;
}

static void *application(void *unused) {
	(void)unused;
	int rank, size;
	check(PMPI_Comm_rank(MPI_COMM_WORLD, &rank) || PMPI_Comm_size(MPI_COMM_WORLD, &size), "no rank");
	do {
		usleep(PAUSE_US); // it computes
		rounds++;
	} while (!exchange(rank, size));
	return NULL;
}

static int level_of(const char *variable) {
	const char *s = getenv(variable);
	return s ? atoi(s) : -1;
}

__attribute__((constructor)) static void start(void) {
	if (level_of("LIBRARY_LEVEL") >= 0) return;
	int wanted = level_of("APPLICATION_LEVEL"), level;
	if (wanted < 0) wanted = MPI_THREAD_MULTIPLE;
	check(PMPI_Init_thread(NULL, NULL, wanted, &level), "MPI_Init_thread failed");
	check(PMPI_Comm_create_errhandler(handle, &own) || PMPI_Comm_set_errhandler(MPI_COMM_WORLD, own), "no error handler");
}

int MPI_Init_thread(int *argc, char ***argv, int wanted, int *level) {
	int most = level_of("LIBRARY_LEVEL");
	int rc = PMPI_Init_thread(argc, argv, most >= 0 && most < wanted ? most : wanted, level);
	printf("the library grants level %d\n", rc ? -1 : *level);
	(void)fflush(stdout);
	return rc;
}

static void not_world(MPI_Comm c, const char *call) {
	if (c != MPI_COMM_WORLD || !own) return;
	printf("LNet called %s with MPI_COMM_WORLD\n", call);
	end("MPI_COMM_WORLD is not LNet's");
}

#define FOREIGN(name, parameters, arguments) \
	int MPI_##name parameters { \
		not_world(c, #name); \
		return PMPI_##name arguments; \
	}

FOREIGN(Isend, (const void *b, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request *r), (b, n, t, to, tag, c, r))
FOREIGN(Irecv, (void *b, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Request *r), (b, n, t, from, tag, c, r))
FOREIGN(Barrier, (MPI_Comm c), (c))
FOREIGN(Bcast, (void *b, int n, MPI_Datatype t, int root, MPI_Comm c), (b, n, t, root, c))
FOREIGN(Gather, (const void *b, int n, MPI_Datatype t, void *a, int m, MPI_Datatype u, int root, MPI_Comm c), (b, n, t, a, m, u, root, c))
FOREIGN(Comm_set_errhandler, (MPI_Comm c, MPI_Errhandler e), (c, e))
FOREIGN(Comm_remote_size, (MPI_Comm c, int *n), (c, n))
FOREIGN(Comm_accept, (const char *p, MPI_Info i, int root, MPI_Comm c, MPI_Comm *n), (p, i, root, c, n))
FOREIGN(Comm_connect, (const char *p, MPI_Info i, int root, MPI_Comm c, MPI_Comm *n), (p, i, root, c, n))
FOREIGN(Comm_spawn_multiple, (int count, char **p, char ***a, const int *n, const MPI_Info *i, int root, MPI_Comm c, MPI_Comm *o, int *e),
	(count, p, a, n, i, root, c, o, e))
FOREIGN(Abort, (MPI_Comm c, int status), (c, status))

int MPI_Comm_disconnect(MPI_Comm *c) {
	not_world(*c, "Comm_disconnect");
	return PMPI_Comm_disconnect(c);
}

int MPI_Comm_rank(MPI_Comm c, int *rank) { return PMPI_Comm_rank(c, rank); }

int MPI_Comm_size(MPI_Comm c, int *size) { return PMPI_Comm_size(c, size); }

int MPI_Comm_get_attr(MPI_Comm c, int key, void *value, int *found) {
	if (key != MPI_TAG_UB) not_world(c, "Comm_get_attr");
	return PMPI_Comm_get_attr(c, key, value, found);
}

// The application begins when LNet has its own communicator.
int MPI_Comm_dup(MPI_Comm c, MPI_Comm *d) {
	int rc = PMPI_Comm_dup(c, d);
	if (!rc && own && !running) {
		check(pthread_create(&thread, NULL, application, NULL), "no thread");
		running = 1;
	}
	return rc;
}

// The application ends, and with it MPI, when LNet has given its communicator back.
int MPI_Comm_free(MPI_Comm *c) {
	not_world(*c, "Comm_free");
	int rc = PMPI_Comm_free(c);
	if (rc || !running) return rc;
	over = 1;
	check(pthread_join(thread, NULL), "no end");
	MPI_Errhandler now;
	check(PMPI_Comm_get_errhandler(MPI_COMM_WORLD, &now), "no error handler");
	if (now != own) end("MPI_COMM_WORLD has another error handler");
	printf("application: passed, %d of %d errors handled\n", handled, rounds);
	(void)fflush(stdout);
	return PMPI_Finalize();
}
