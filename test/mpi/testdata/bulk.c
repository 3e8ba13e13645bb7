// Moves bulk data between two ranks through liblnet_mpi: for each length, rank 0 offers a buffer with data and an empty
// one, and sends both descriptors. Rank 1 fetches the data, inverts each byte, and fills the other buffer. Rank 0 checks
// what it has got, and prints "passed".
#include <lnet_mpi.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PORTAL = 34, TM = 7, LONGEST = 1 << 20, ROOM = 2 * sizeof(struct lnetd_desc), PATIENCE = 60000 /* milliseconds */ };

static lnetd *d;
static lnetd_tm *tm;
static lnetd_buf *data, *back, *message;
static unsigned char *memory; // of data, back and message

static void check(int result, const char *what, const char *reason)
{
	if (result >= 0)
		return;
	fprintf(stderr, "bulk: %s: %s\n", what, reason);
	MPI_Abort(MPI_COMM_WORLD, 1);
	exit(1);
}

static unsigned char byte(uint32_t k, uint32_t length) { return (unsigned char)(k ^ k >> 8 ^ length); }

static struct lnetd_addr address(int process)
{
	struct lnetd_addr a = { .portal = PORTAL, .tmid = TM };
	check(lnet_mpi_address(process, &a), "address", lnet_mpi_text());
	return a;
}

static lnetd_buf *buffer(void *at, size_t length)
{
	lnetd_buf *b;
	check(lnetd_register(d, &(struct iovec){ at, length }, 1, NULL, &b), "register", lnetd_text());
	return b;
}

// await waits for the end of an operation of each type in the list, in any order, and returns the last event.
static struct lnetd_event await(uint64_t types)
{
	struct lnetd_event e = { 0 };
	while (types) {
		int n = lnetd_events(tm, &e, 1);
		check(n, "events", lnetd_text());
		if (n == 0) {
			check(lnetd_wait(tm, PATIENCE) - 1, "wait", "no event has come");
			continue;
		}
		check(e.status ? -1 : 0, "operation", lnetd_strerror(e.status));
		check(types >> e.type & 1 ? 0 : -1, "event", "it has another type");
		if (e.flags & LNETD_FINAL)
			types &= ~(UINT64_C(1) << e.type);
	}
	return e;
}

// offer offers length bytes of data, and the whole of back.
static void offer(uint32_t length, const struct lnetd_addr *to)
{
	struct lnetd_desc *desc = lnetd_at(message, 0, NULL);
	for (uint32_t k = 0; k < length; k++)
		memory[k] = byte(k, length);
	memset(memory + LONGEST, 0, LONGEST);
	check(lnetd_offer(tm, data, LNETD_OUT, length, &desc[0]), "offer data", lnetd_text());
	check(lnetd_offer(tm, back, LNETD_IN, 0, &desc[1]), "offer room", lnetd_text());
	check(lnetd_send(tm, message, ROOM, to), "send", lnetd_text());
	await(1 << LNETD_SEND | 1 << LNETD_PASSIVE_OUT | 1 << LNETD_PASSIVE_IN);
	for (uint32_t k = 0; k < LONGEST; k++) {
		unsigned char want = k < length ? (unsigned char)~byte(k, length) : 0;
		check(memory[LONGEST + k] == want ? 0 : -1, "data", "they have not come back inverted");
	}
}

// move fetches what a message offers, and sends it back inverted.
static void move(uint32_t length)
{
	await(1 << LNETD_RECV);
	const struct lnetd_desc *desc = lnetd_at(message, 0, NULL);
	check(lnetd_move(tm, data, LNETD_IN, 0, desc[0].bytes, desc[0].size), "fetch", lnetd_text());
	check(await(1 << LNETD_ACTIVE_IN).length == length ? 0 : -1, "fetch", "another length");
	for (uint32_t k = 0; k < length; k++)
		memory[k] = (unsigned char)~memory[k];
	check(lnetd_move(tm, data, LNETD_OUT, length, desc[1].bytes, desc[1].size), "fill", lnetd_text());
	await(1 << LNETD_ACTIVE_OUT);
}

int main(int argc, char **argv)
{
	static const uint32_t lengths[] = { 1, 4096, 8193, LONGEST };
	int level, rank;

	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
	check(lnet_mpi_init(MPI_Comm_c2f(MPI_COMM_WORLD)), "init", lnet_mpi_text());
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	struct lnetd_addr self = address(rank), other = address(1 - rank);
	check(lnetd_open(&d, lnet_mpi_socket(), "bulk", 0), "open", lnetd_text());
	check(lnetd_tm_start(d, &self, 0, &tm), "start", lnetd_text());
	check(lnetd_alloc(d, 2 * LONGEST + ROOM, (void **)&memory), "alloc", lnetd_text());
	data = buffer(memory, LONGEST);
	back = buffer(memory + LONGEST, LONGEST);
	message = buffer(memory + 2 * LONGEST, ROOM);
	for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
		if (rank == 1) {
			check(lnetd_recv(tm, message, ROOM, 1), "receive", lnetd_text());
			check(lnetd_sync(tm, PATIENCE), "receive", lnetd_text());
		}
		MPI_Barrier(MPI_COMM_WORLD); // a message that finds no buffer is lost
		if (rank == 0)
			offer(lengths[k], &other);
		else
			move(lengths[k]);
	}
	lnetd_close(d);
	check(lnet_mpi_finalize(), "finalize", lnet_mpi_text());
	if (rank == 0)
		printf("passed\n");
	MPI_Finalize();
	return 0;
}
