// Stands for an application that has initialized MPI before it uses LNet. It is loaded before the test program
// (LD_PRELOAD), whose Go code cannot call MPI itself. It passes the communicator of the ranks with the same parity, as
// a handle in Fortran in the file HOST_DIR/<pid>, and finalizes MPI when the duplicate of it is freed.
//
// It ends the job if the shim uses MPI_COMM_WORLD, which belongs to the application, for anything but questions.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void check(int rc) {
	if (rc) MPI_Abort(MPI_COMM_WORLD, 1);
}

static void not_world(MPI_Comm c, const char *call) {
	if (c != MPI_COMM_WORLD) return;
	printf("%s was called for MPI_COMM_WORLD\n", call);
	(void)fflush(stdout);
	check(1);
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
FOREIGN(Comm_dup, (MPI_Comm c, MPI_Comm *d), (c, d))
FOREIGN(Comm_set_errhandler, (MPI_Comm c, MPI_Errhandler e), (c, e))
FOREIGN(Comm_set_attr, (MPI_Comm c, int key, void *value), (c, key, value))

int MPI_Comm_free(MPI_Comm *c) {
	check(PMPI_Comm_free(c));
	return PMPI_Finalize();
}

__attribute__((constructor)) static void start(void) {
	int rank, level;
	MPI_Comm passed;
	check(MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level));
	check(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
	check(PMPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &passed));
	char name[1024];
	(void)snprintf(name, sizeof name, "%s/%d", getenv("HOST_DIR"), (int)getpid());
	FILE *f = fopen(name, "w");
	check(f == NULL);
	(void)fprintf(f, "%d\n", (int)MPI_Comm_c2f(passed));
	check(fclose(f));
}
