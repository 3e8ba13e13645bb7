// mpiring passes a message around all ranks of an MPI application, with LNet over MPI.
//
//	mpicc -std=c11 mpiring.c -o mpiring -llnet_mpi $(pkg-config --cflags --libs lnetd)
//	mpirun -n 4 mpiring
//
// The ranks use MPI_COMM_WORLD for themselves, and LNet a duplicate of it. Proxies, if there are any, are a separate job.

#include <lnet_mpi.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PORTAL = 34, TM = 7, LONGEST = 4096, PATIENCE = 60000 /* milliseconds */ };

static void check(int result, const char *what, const char *reason)
{
	if (result >= 0)
		return;
	fprintf(stderr, "mpiring: %s: %s\n", what, reason);
	MPI_Abort(MPI_COMM_WORLD, 1);
	exit(1);
}

// address is the address of the TM of a process.
static struct lnetd_addr address(int process)
{
	struct lnetd_addr a = { .portal = PORTAL, .tmid = TM };
	check(lnet_mpi_address(process, &a), "address", lnet_mpi_text());
	return a;
}

// await waits until operations have ended. Events of a send and of a receive may come in any order.
static void await(lnetd_tm *tm, int operations)
{
	struct lnetd_event e;
	while (operations > 0) {
		int n = lnetd_events(tm, &e, 1);
		check(n, "events", lnetd_text());
		if (n == 0) {
			if (lnetd_wait(tm, PATIENCE) != 1)
				check(-1, "wait", "no event has come");
			continue;
		}
		check(e.status ? -1 : 0, "operation", lnetd_strerror(e.status));
		if (e.flags & LNETD_FINAL)
			operations--;
	}
}

int main(int argc, char **argv)
{
	int level, rank, ranks;
	lnetd *d;
	lnetd_tm *tm;
	lnetd_buf *in, *out;
	char *memory;

	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
	check(lnet_mpi_init(MPI_Comm_c2f(MPI_COMM_WORLD)), "init", lnet_mpi_text());
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	struct lnetd_addr self = address(rank), next = address((rank + 1) % ranks);
	check(lnetd_open(&d, lnet_mpi_socket(), "mpiring", 0), "open", lnetd_text());
	check(lnetd_tm_start(d, &self, 0, &tm), "start", lnetd_text());
	check(lnetd_alloc(d, 2 * LONGEST, (void **)&memory), "alloc", lnetd_text());
	check(lnetd_register(d, &(struct iovec){ memory, LONGEST }, 1, NULL, &in), "register", lnetd_text());
	check(lnetd_register(d, &(struct iovec){ memory + LONGEST, LONGEST }, 1, NULL, &out), "register", lnetd_text());
	check(lnetd_recv(tm, in, LONGEST, 1), "receive", lnetd_text());
	check(lnetd_sync(tm, PATIENCE), "receive", lnetd_text());
	MPI_Barrier(MPI_COMM_WORLD); // a message that finds no buffer is lost
	if (rank == 0) {
		strcpy(memory + LONGEST, "0");
		check(lnetd_send(tm, out, 2, &next), "send", lnetd_text());
		await(tm, 2); // the send and the receive
		printf("the message has passed the ranks %s\n", memory);
	} else {
		await(tm, 1); // the receive
		int length = snprintf(memory + LONGEST, LONGEST, "%s %d", memory, rank) + 1;
		check(lnetd_send(tm, out, (uint32_t)length, &next), "send", lnetd_text());
		await(tm, 1); // the send
	}
	lnetd_close(d);
	check(lnet_mpi_finalize(), "finalize", lnet_mpi_text());
	MPI_Finalize();
	return 0;
}
