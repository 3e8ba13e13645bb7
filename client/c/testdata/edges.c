// A client in unusual states of its process, and with unusual arguments:
//
//	edges signals SOCKET  a timer interrupts the allocation of much memory all the time
//	edges fork SOCKET     children are made, and close the connection, while threads use it
//	edges files SOCKET    a TM is started when too many files are open
//	edges quota SOCKET    more memory is allocated than lnetd permits
//	edges busy SOCKET     an operation begins while its buffer is being deregistered
//	edges names SOCKET    names of programs, and texts of NIDs
//
// It has its own sendmsg and posix_fallocate, so that it knows what the library does.
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { LARGE = 64 << 20, CHILDREN = 40 };

static lnetd *domain;
static struct lnetd_addr me = { .pid = LNETD_PID, .portal = 34, .tmid = LNETD_ANY_TM };
static atomic_bool over;

static void (*before_request)(void); // called before a request is sent, unless NULL
static off_t allocated;              // bytes that posix_fallocate was asked for

ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	if (before_request)
		before_request();
	return syscall(SYS_sendmsg, fd, m, flags);
}

int posix_fallocate(int fd, off_t offset, off_t length)
{
	allocated += length;
	return syscall(SYS_fallocate, fd, 0, offset, length) == 0 ? 0 : errno;
}

static void tick(int signal) { (void)signal; }

static void signals(void)
{
	struct sigaction action = { .sa_handler = tick };
	const struct itimerval often = { { 0, 3000 }, { 0, 3000 } };
	void *memory;
	CHECK(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0, "no timer");
	MUST(lnetd_alloc(domain, LARGE, &memory));
	MUST(lnetd_free(domain, memory));
}

// take takes events, of which there are none, until the test is over.
static void *take(void *tm)
{
	struct lnetd_event e;
	while (!atomic_load(&over))
		MUST(lnetd_events(tm, &e, 1));
	return NULL;
}

// change registers and deregisters a buffer, and starts and stops a TM, until the test is over.
static void *change(void *memory)
{
	struct iovec v = { memory, 4096 };
	lnetd_buf *b;
	lnetd_tm *tm;
	while (!atomic_load(&over)) {
		MUST(lnetd_register(domain, &v, 1, NULL, &b));
		MUST(lnetd_tm_start(domain, &me, 2, &tm));
		MUST(lnetd_tm_stop(tm));
		MUST(lnetd_deregister(b));
	}
	return NULL;
}

static void forks(void)
{
	lnetd_tm *tm;
	void *memory;
	pthread_t threads[2];
	MUST(lnetd_tm_start(domain, &me, 2, &tm));
	MUST(lnetd_alloc(domain, 4096, &memory));
	CHECK(pthread_create(&threads[0], NULL, take, tm) == 0 && pthread_create(&threads[1], NULL, change, memory) == 0, "no threads");
	for (int i = 0; i < CHILDREN; i++) {
		pid_t child = fork();
		int status;
		CHECK(child >= 0, "fork");
		if (child == 0) {
			alarm(20); // ends a child that waits for a lock
			lnetd_close(domain);
			_exit(0);
		}
		CHECK(waitpid(child, &status, 0) == child && status == 0, "child %d ends with status %#x", i, (unsigned)status);
	}
	atomic_store(&over, true);
	for (int i = 0; i < 2; i++)
		CHECK(pthread_join(threads[i], NULL) == 0, "join");
	MUST(lnetd_ping(domain));
}

// open_files returns how many files are open, without the one that counts.
static int open_files(void)
{
	int n = 0;
	DIR *d = opendir("/proc/self/fd");
	CHECK(d, "/proc/self/fd");
	while (readdir(d))
		n++;
	closedir(d);
	return n - 3;
}

static void files(void)
{
	struct rlimit limit, few;
	int before = open_files();
	lnetd_tm *tm;
	CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0, "getrlimit");
	for (int spare = 0; spare < 3; spare++) {
		int highest = dup(0);
		CHECK(highest >= 0, "dup");
		close(highest); // the lowest number that is free; there may be others above
		few = (struct rlimit){ (rlim_t)highest + (rlim_t)spare, limit.rlim_max };
		CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0, "setrlimit");
		REFUSED(EMFILE, lnetd_tm_start(domain, &me, 2, &tm));
		CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
		CHECK(open_files() == before, "%d files remain open", open_files() - before);
	}
	MUST(lnetd_tm_start(domain, &me, 2, &tm));
	MUST(lnetd_tm_stop(tm));
}

static void quota(void)
{
	struct lnetd_limits limits = { .size = sizeof limits };
	void *memory;
	MUST(lnetd_limits(domain, &limits));
	REFUSED(EDQUOT, lnetd_alloc(domain, limits.memory + 4096, &memory));
	CHECK(allocated == 0, "%lld bytes were allocated before lnetd refused them", (long long)allocated);
	MUST(lnetd_alloc(domain, 4096, &memory));
	CHECK(allocated >= 4096, "nothing was allocated");
}

static lnetd_tm *busy_tm;
static lnetd_buf *busy_buffer;

static void receive_meanwhile(void)
{
	before_request = NULL;
	REFUSED(EBUSY, lnetd_recv(busy_tm, busy_buffer, 64, 1));
	MUST(lnetd_cancel(busy_tm, busy_buffer)); // which does nothing
}

static void busy(void)
{
	struct iovec v = { NULL, 4096 };
	MUST(lnetd_alloc(domain, v.iov_len, &v.iov_base));
	MUST(lnetd_register(domain, &v, 1, NULL, &busy_buffer));
	MUST(lnetd_tm_start(domain, &me, 2, &busy_tm));
	MUST(lnetd_recv(busy_tm, busy_buffer, 64, 1));
	REFUSED(EBUSY, lnetd_deregister(busy_buffer));
	MUST(lnetd_cancel(busy_tm, busy_buffer));
	MUST(lnetd_wait(busy_tm, 60000));
	CHECK(lnetd_events(busy_tm, &(struct lnetd_event){ 0 }, 1) == 1, "no event of what was canceled");
	before_request = receive_meanwhile;
	MUST(lnetd_deregister(busy_buffer));
	CHECK(!before_request, "no request was sent");
	MUST(lnetd_ping(domain));
}

// other returns what lnetd_open returns for the name of a program.
static int other(const char *path, const char *name)
{
	lnetd *d;
	int result = lnetd_open(&d, path, name, 0);
	if (result == 0)
		lnetd_close(d);
	return result;
}

static void names(const char *path)
{
	struct lnetd_nid with, without;
	MUST(other(path, "1234567890123456789012345678901"));
	MUST(other(path, ""));
	REFUSED(EINVAL, other(path, "12345678901234567890123456789012"));
	REFUSED(EINVAL, other(path, "two\nlines"));
	REFUSED(EINVAL, other(path, "\303\251"));
	program_invocation_short_name = "a name \303\251 that is too long for lnetd's displays";
	MUST(other(path, NULL));
	MUST(lnetd_nid_parse("10.0.0.1", &without));
	MUST(lnetd_nid_parse("10.0.0.1@tcp", &with));
	CHECK(memcmp(&with, &without, sizeof with) == 0, "an address without a net is not one of tcp");
	REFUSED(EINVAL, lnetd_nid_parse("", &with));
	REFUSED(EINVAL, lnetd_nid_parse("10.0.0.1@", &with));
}

int main(int argc, char **argv)
{
	CHECK(argc == 3, "usage: edges signals|fork|files|quota|busy|names SOCKET");
	MUST(lnetd_open(&domain, argv[2], NULL, 0));
	CHECK(lnetd_nids(domain, &me.nid, 1) >= 1, "lnetd has no NIDs");
	if (strcmp(argv[1], "signals") == 0)
		signals();
	else if (strcmp(argv[1], "fork") == 0)
		forks();
	else if (strcmp(argv[1], "files") == 0)
		files();
	else if (strcmp(argv[1], "quota") == 0)
		quota();
	else if (strcmp(argv[1], "busy") == 0)
		busy();
	else
		names(argv[2]);
	lnetd_close(domain);
	puts("ok");
	return 0;
}
