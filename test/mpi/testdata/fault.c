// Makes one send of a proxy fail. It is loaded before the proxy (LD_PRELOAD).
#include <mpi.h>
#include <stdio.h>

enum { FAILS = 100 }; // which send

int MPI_Isend(const void *b, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request *r) {
	static int sends;
	if (++sends != FAILS) return PMPI_Isend(b, n, t, to, tag, c, r);
	printf("a send of the proxy fails\n");
	(void)fflush(stdout);
	return MPI_ERR_OTHER;
}
