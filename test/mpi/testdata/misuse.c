// Calls the functions of lnet_mpi.h at wrong times and with wrong arguments, and checks each result:
//
//	misuse             everything before, during and after LNet runs
//	misuse early|late  lnet_mpi_init before MPI_Init_thread, or after MPI_Finalize
//	misuse broken      lnet_mpi_init when there is no directory for the socket
//	misuse invalid     lnet_mpi_init with LNET_MPI_SPAWN that is invalid
//	misuse alone       lnet_mpi_init with proxies that the MPI library cannot start
//	misuse killed      ends by a signal while LNet runs
//
// It prints "passed" in each rank, except for killed, and for broken, invalid and alone, which end as lnet_mpi.h says: with
// MPI_Abort.
#include <errno.h>
#include <lnet_mpi.h>
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static void fail(const char *what, int got, int want)
{
	printf("%s: %d (%s), want %d\n", what, got, lnet_mpi_text(), want);
	(void)fflush(stdout);
	_exit(1);
}

// check checks a result. A failure must have a reason.
static void check(const char *what, int got, int want)
{
	if (got != want || (got < 0 && !*lnet_mpi_text()))
		fail(what, got, want);
}

// not_running checks the functions while LNet does not run.
static void not_running(void)
{
	struct lnetd_addr a;
	check("size", lnet_mpi_size(), -EINVAL);
	check("rank", lnet_mpi_rank(), -EINVAL);
	check("address", lnet_mpi_address(0, &a), -EINVAL);
	check("route", lnet_mpi_route("tcp"), -EINVAL);
	check("finalize", lnet_mpi_finalize(), -EINVAL);
	check("socket", (int)strlen(lnet_mpi_socket()), 0);
}

static int start_mpi(void)
{
	int level;
	return MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level) || level != MPI_THREAD_MULTIPLE;
}

static int start(void) { return lnet_mpi_init(MPI_Comm_c2f(MPI_COMM_WORLD)); }

// running checks the functions while LNet runs.
static void running(int rank, int ranks)
{
	struct lnetd_addr a;
	lnetd *d;
	check("second init", start(), -EBUSY);
	check("size", lnet_mpi_size(), ranks);
	check("rank", lnet_mpi_rank(), rank);
	check("address", lnet_mpi_address(rank, &a), 0);
	check("address -1", lnet_mpi_address(-1, &a), -EINVAL);
	check("address behind the last", lnet_mpi_address(ranks, &a), -EINVAL);
	check("route to nonsense", lnet_mpi_route("nonsense?"), -EINVAL);
	check("route without a proxy", lnet_mpi_route("tcp"), -ENOENT);
	check("open", lnetd_open(&d, lnet_mpi_socket(), "misuse", 0), 0);
	lnetd_close(d);
}

// refuse checks that a child cannot use the socket, which it reaches by the path of its parent's descriptor.
static void refuse(void)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	const char *name = strrchr(lnet_mpi_socket(), '/');
	int status, n = snprintf(to.sun_path, sizeof to.sun_path, "/proc/%d/fd%s", (int)getpid(), name);
	pid_t child = fork();
	if (child == 0) {
		char c;
		int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		if (connect(s, (struct sockaddr *)&to, sizeof to) || read(s, &c, 1) > 0)
			_exit(1);
		_exit(0);
	}
	check("path", n < (int)sizeof to.sun_path && child > 0, 1);
	check("wait", waitpid(child, &status, 0) == child, 1);
	check("child", status, 0);
}

static void *finalize(void *unused)
{
	(void)unused;
	check("finalize", lnet_mpi_finalize(), 0);
	return NULL;
}

// end ends LNet. Rank 0 waits for the others in lnet_mpi_finalize, and they call it only when another thread of rank 0
// got the error that LNet does not run: the functions do not wait for one another.
static void end(int rank)
{
	pthread_t t;
	if (rank == 0) {
		check("thread", pthread_create(&t, NULL, finalize, NULL), 0);
		while (lnet_mpi_size() != -EINVAL)
			sched_yield();
	}
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		check("thread", pthread_join(t, NULL), 0);
	else
		finalize(NULL);
}

static void whole(void)
{
	int rank, ranks;
	not_running();
	check("MPI", start_mpi(), 0);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	check("init", start(), 0);
	running(rank, ranks);
	refuse();
	char *path = strdup(lnet_mpi_socket());
	end(rank);
	if (lnetd_open(&(lnetd *){ NULL }, path, "misuse", 0) >= 0)
		fail("open after the end", 0, -ECONNREFUSED);
	free(path);
	not_running();
	check("init after the end", start(), -EBUSY);
	MPI_Finalize();
}

// fails checks that lnet_mpi_init fails, prints the reason, and ends the job.
static void fails(int want)
{
	check("MPI", start_mpi(), 0);
	check("init", start(), want);
	printf("init: %s\n", lnet_mpi_text());
	(void)fflush(stdout);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv)
{
	const char *when = argc > 1 ? argv[1] : "";
	if (!strcmp(when, "early")) {
		check("early", lnet_mpi_init(0), -EINVAL); // Open MPI would not permit MPI_Comm_c2f
		not_running();
		check("init after an error", lnet_mpi_init(0), -EBUSY);
		check("MPI", start_mpi(), 0);
		MPI_Finalize();
	} else if (!strcmp(when, "late")) {
		check("MPI", start_mpi(), 0);
		MPI_Finalize();
		check("late", lnet_mpi_init(0), -EINVAL);
	} else if (!strcmp(when, "broken")) {
		fails(-EIO);
	} else if (!strcmp(when, "invalid")) {
		fails(-EINVAL);
	} else if (!strcmp(when, "alone")) {
		fails(-EOPNOTSUPP);
	} else if (!strcmp(when, "killed")) {
		check("MPI", start_mpi(), 0);
		check("init", start(), 0);
		printf("killed at %s\n", lnet_mpi_socket());
		(void)fflush(stdout);
		raise(SIGKILL);
	} else {
		whole();
	}
	printf("passed\n");
	return 0;
}
