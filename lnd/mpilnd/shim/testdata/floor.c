// The plainest program over MPI, for comparison: a rank sends messages to another, which sends them back, or many
// messages in one direction.
//
//	floor BYTES ROUNDS WINDOW
//
// Rank 0 prints the nanoseconds of a round trip, if WINDOW is 0, and otherwise of a message, with WINDOW of them in
// flight.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static void check(int rc) {
	if (rc) MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv) {
	int rank;
	check(MPI_Init(&argc, &argv));
	check(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
	if (argc != 4) return 1;
	int n = atoi(argv[1]), rounds = atoi(argv[2]), window = atoi(argv[3]);
	char *in = malloc((size_t)n), *out = calloc((size_t)n, 1);
	MPI_Request *requests = calloc((size_t)window + 1, sizeof *requests);
	MPI_Status *statuses = calloc((size_t)window + 1, sizeof *statuses);
	check(MPI_Barrier(MPI_COMM_WORLD));
	double start = MPI_Wtime();
	for (int k = 0; k < rounds; k += window + !window) {
		if (window) {
			for (int w = 0; w < window; w++)
				check(rank ? MPI_Irecv(in, n, MPI_BYTE, 0, 2, MPI_COMM_WORLD, &requests[w])
				           : MPI_Isend(out, n, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &requests[w]));
			check(MPI_Waitall(window, requests, statuses));
		} else if (rank) {
			check(MPI_Recv(in, n, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
			check(MPI_Send(out, n, MPI_BYTE, 0, 1, MPI_COMM_WORLD));
		} else {
			check(MPI_Send(out, n, MPI_BYTE, 1, 1, MPI_COMM_WORLD));
			check(MPI_Recv(in, n, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
		}
	}
	check(MPI_Barrier(MPI_COMM_WORLD));
	if (!rank) printf("%.0f\n", (MPI_Wtime() - start) / rounds * 1e9);
	return MPI_Finalize();
}
