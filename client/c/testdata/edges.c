// A client in unusual states of its process, and with unusual arguments:
//
//	edges signals SOCKET  a timer interrupts the allocation of much memory, and a wait, all the time
//	edges fork SOCKET     children are made, and close the connection, while threads use it
//	edges files SOCKET    a TM is started when too many files are open
//	edges quota SOCKET    more memory is allocated than lnetd permits
//	edges busy SOCKET     an operation begins while its buffer is being deregistered
//	edges names SOCKET    names of programs, and texts of NIDs
//	edges batch SOCKET    batches of operations, also without an end or a beginning
//	edges spin SOCKET     threads yield the processor before they sleep, unless they do not find anything
//	edges word SOCKET     threads sleep on a word in shared memory
//	edges old SOCKET      lnetd does not know that, so they do not
//
// It has its own sendmsg, recv, write, posix_fallocate, sched_yield, clock_gettime, lni_sleep and lni_wake, so that it knows
// what the library does.
#define _GNU_SOURCE
#include <dirent.h>
#include <linux/futex.h>
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
#include "internal.h"

enum { MESSAGE = 64, PATIENCE = 60000 };
enum { LARGE = 64 << 20, CHILDREN = 40 };

static lnetd *domain;
static struct lnetd_addr me = { .pid = LNETD_PID, .portal = 34, .tmid = LNETD_ANY_TM };
static atomic_bool over;

static void (*before_request)(void); // called before a request is sent, unless NULL
static off_t allocated;              // bytes that posix_fallocate was asked for
static unsigned vain;                // calls of recv that found nothing
static unsigned yields;              // calls of sched_yield
static unsigned rings;               // wake-ups of lnetd
static int64_t clock_ns;             // what clock_gettime returns, 10 µs later at each call; 0: the true time
static unsigned sleeps, wakeups;     // on the word CQ sleeping, and those that lnetd has ended
static void (*before_sleep)(void);   // called before a sleep on that word, unless NULL

ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	if (before_request)
		before_request();
	return syscall(SYS_sendmsg, fd, m, flags);
}

ssize_t recv(int fd, void *buffer, size_t size, int flags)
{
	ssize_t n = syscall(SYS_recvfrom, fd, buffer, size, flags, NULL, NULL);
	vain += n < 0;
	return n;
}

ssize_t write(int fd, const void *buffer, size_t size)
{
	rings++;
	return syscall(SYS_write, fd, buffer, size);
}

int posix_fallocate(int fd, off_t offset, off_t length)
{
	allocated += length;
	return syscall(SYS_fallocate, fd, 0, offset, length) == 0 ? 0 : errno;
}

int sched_yield(void)
{
	yields++;
	return (int)syscall(SYS_sched_yield);
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
	if (clock_ns == 0)
		return (int)syscall(SYS_clock_gettime, clock, t);
	clock_ns += 10000;
	*t = (struct timespec){ clock_ns / 1000000000, clock_ns % 1000000000 };
	return 0;
}

void lni_sleep(_Atomic uint32_t *word, uint32_t value, int64_t time)
{
	const struct timespec t = { .tv_nsec = time };
	if (value == ON_WORD && before_sleep)
		before_sleep();
	bool woken = syscall(SYS_futex, word, FUTEX_WAIT, value, &t, NULL, 0) == 0 || errno == EAGAIN;
	if (value == ON_WORD) {
		sleeps++;
		wakeups += woken;
	}
}

void lni_wake(_Atomic uint32_t *word)
{
	rings++;
	syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static lnetd_tm *started(uint32_t completions, struct lnetd_addr *at)
{
	lnetd_tm *tm;
	MUST(lnetd_tm_start(domain, &me, completions, &tm));
	lnetd_tm_addr(tm, at);
	return tm;
}

static lnetd_buf *buffer(void)
{
	struct iovec v = { NULL, MESSAGE };
	lnetd_buf *b;
	MUST(lnetd_alloc(domain, v.iov_len, &v.iov_base));
	MUST(lnetd_register(domain, &v, 1, NULL, &b));
	return b;
}

// expect waits for n events.
static void expect(lnetd_tm *tm, int n)
{
	struct lnetd_event e;
	while (n > 0) {
		int got = lnetd_events(tm, &e, 1);
		MUST(got);
		CHECK(got == 0 || e.status == 0, "an event of type %u with status %d", e.type, e.status);
		n -= got;
		if (got == 0)
			CHECK(lnetd_wait(tm, PATIENCE) == 1, "no event comes");
	}
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
	struct lnetd_addr at;
	lnetd_tm *tm = started(2, &at);
	MUST(lnetd_recv(tm, buffer(), MESSAGE, 1));
	MUST(lnetd_send(tm, buffer(), MESSAGE, &at));
	expect(tm, 2);
	CHECK(lnetd_wait(tm, 50) == 0, "an event"); // on the word, and then at the descriptors
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

static void batch(void)
{
	struct lnetd_addr at;
	lnetd_tm *tm = started(2, &at); // so it has room for 8 submissions
	lnetd_buf *in = buffer(), *out = buffer(), *many[9];
	REFUSED(EINVAL, lnetd_commit(tm));
	MUST(lnetd_begin(tm));
	MUST(lnetd_recv(tm, in, MESSAGE, 1));
	MUST(lnetd_send(tm, out, MESSAGE, &at));
	MUST(lnetd_ping(domain));
	CHECK(!lnetd_pending(tm), "lnetd has seen a batch");
	REFUSED(EBUSY, lnetd_tm_stop(tm));
	REFUSED(EBUSY, lnetd_deregister(in));
	MUST(lnetd_commit(tm));
	expect(tm, 2);
	REFUSED(EINVAL, lnetd_commit(tm));
	unsigned before = rings;
	MUST(lnetd_begin(tm));
	MUST(lnetd_commit(tm));
	CHECK(rings == before, "an empty batch has woken lnetd");

	MUST(lnetd_begin(tm)); // a batch that the program forgets
	MUST(lnetd_recv(tm, in, MESSAGE, 1));
	MUST(lnetd_sync(tm, PATIENCE));
	MUST(lnetd_send(tm, out, MESSAGE, &at));
	expect(tm, 2);
	MUST(lnetd_recv(tm, in, MESSAGE, 1));
	MUST(lnetd_send(tm, out, MESSAGE, &at));
	MUST(lnetd_tm_arm(tm));
	MUST(lnetd_ping(domain));
	expect(tm, 2);

	for (int i = 0; i < 9; i++)
		many[i] = buffer();
	MUST(lnetd_begin(tm)); // a second batch in the first
	for (int i = 0; i < 8; i++)
		MUST(lnetd_recv(tm, many[i], MESSAGE, 1));
	int result;
	while ((result = lnetd_recv(tm, many[8], MESSAGE, 1)) == -EAGAIN) // lnetd sees a batch that fills the ring
		MUST(lnetd_ping(domain));
	MUST(result);
	MUST(lnetd_send(tm, out, MESSAGE, &at));
	MUST(lnetd_commit(tm));
	expect(tm, 2);
	MUST(lnetd_commit(tm));
	REFUSED(EINVAL, lnetd_commit(tm));
}

static void spin(void)
{
	struct lnetd_addr at, other_at;
	lnetd_tm *tm = started(2, &at);
	unsigned waits = 0;
	for (int i = 0; i < 64; i++) {
		unsigned before = yields;
		CHECK(lnetd_wait(tm, 1) == 0, "an event");
		waits += yields > before;
	}
	CHECK(waits > 0 && waits <= 8, "%u waits of 64 have yielded the processor, although they found nothing", waits);
	REFUSED(EINVAL, lnetd_set_spin(domain, 1000001));
	MUST(lnetd_set_spin(domain, 1000000));
	yields = 0;
	clock_ns = 1000000000;
	CHECK(lnetd_wait(started(2, &other_at), 1) == 0, "an event");
	clock_ns = 0;
	CHECK(yields > 0 && yields <= 100, "a wait of 1 ms has yielded the processor %u times in 10 µs each", yields);
	MUST(lnetd_set_spin(domain, 0));
	yields = 0;
	lnetd_buf *in = buffer(), *out = buffer();
	for (int i = 0; i < 100; i++) {
		MUST(lnetd_recv(tm, in, MESSAGE, 1));
		MUST(lnetd_sync(tm, PATIENCE));
		MUST(lnetd_send(tm, out, MESSAGE, &at));
		expect(tm, 2);
	}
	CHECK(yields == 0, "the processor was yielded %u times", yields);
}

static struct {
	lnetd_tm *tm;
	struct lnetd_addr at;
	lnetd_buf *in, *out;
	bool sent;
} self; // of talk, which sends messages to this TM

static void send_to_self(void)
{
	if (!self.sent)
		MUST(lnetd_send(self.tm, self.out, MESSAGE, &self.at));
	self.sent = true;
}

// talk sends messages to itself, one at a time.
static void talk(void)
{
	self.tm = started(2, &self.at);
	self.in = buffer();
	self.out = buffer();
	MUST(lnetd_set_spin(domain, 0));
	for (int i = 0; i < 100; i++) {
		self.sent = false;
		MUST(lnetd_recv(self.tm, self.in, MESSAGE, 1));
		// A message is sent when the thread is about to sleep on the word. If it got the processor too late for that, it
		// sleeps at the descriptors.
		if (before_sleep)
			MUST(lnetd_wait(self.tm, 50));
		send_to_self();
		expect(self.tm, 2);
	}
	CHECK(vain == 0, "%u calls of recv have found nothing", vain);
}

static void sleep_on_word(void)
{
	before_sleep = send_to_self;
	while (wakeups < 10)
		talk();
}

static void without_futex(void)
{
	talk();
	CHECK(sleeps == 0, "%u sleeps of which lnetd does not know", sleeps);
}

int main(int argc, char **argv)
{
	CHECK(argc == 3, "usage: edges signals|fork|files|quota|busy|names|batch|spin|word|old SOCKET");
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
	else if (strcmp(argv[1], "batch") == 0)
		batch();
	else if (strcmp(argv[1], "spin") == 0)
		spin();
	else if (strcmp(argv[1], "word") == 0)
		sleep_on_word();
	else if (strcmp(argv[1], "old") == 0)
		without_futex();
	else
		names(argv[2]);
	lnetd_close(domain);
	puts("ok");
	return 0;
}
