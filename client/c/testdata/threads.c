// Programs with several threads:
//
//	threads wakeups SOCKET N SECONDS   exchanges N messages between two TMs, or for some time, if it is not 0, while other threads
//	                                   call lnetd_pending
//	threads many SOCKET N              N messages; several threads submit, several take events, for one TM
//	threads flood SOCKET N             N messages arrive before the first event is taken
//	threads sync SOCKET N              N batches of a thread, each of which ends after another thread has called lnetd_sync
//
// It has its own lni_sleep and lni_wake. With wakeups, a sleep on the word CQ sleeping lasts until lnetd ends it: the short
// time limit of the library would hide that a wake-up was lost.
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "internal.h"

enum { MESSAGE = 64, PATIENCE = 60000, SUBMITTERS = 3, TAKERS = 3, SENDERS = 16, RECEIVERS = 64 };

static lnetd *domain;
static unsigned count, seconds;
static atomic_bool over;
static bool exchanging; // the mode is wakeups

void lni_sleep(_Atomic uint32_t *word, uint32_t value, int64_t time)
{
	bool patient = exchanging && value == ON_WORD;
	const struct timespec t = { patient ? PATIENCE / 1000 : 0, patient ? 0 : time };
	long result = syscall(SYS_futex, word, FUTEX_WAIT, value, &t, NULL, 0);
	CHECK(!patient || result == 0 || errno != ETIMEDOUT, "a wake-up was lost");
}

void lni_wake(_Atomic uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0); }

static lnetd_tm *start(struct lnetd_addr *at)
{
	lnetd_tm *tm;
	*at = (struct lnetd_addr){ .pid = LNETD_PID, .portal = 34, .tmid = LNETD_ANY_TM };
	CHECK(lnetd_nids(domain, &at->nid, 1) >= 1, "lnetd has no NIDs");
	MUST(lnetd_tm_start(domain, at, 0, &tm));
	lnetd_tm_addr(tm, at);
	return tm;
}

static lnetd_buf *buffer(size_t size, void *data)
{
	struct iovec v = { NULL, size };
	lnetd_buf *b;
	MUST(lnetd_alloc(domain, size, &v.iov_base));
	MUST(lnetd_register(domain, &v, 1, data, &b));
	return b;
}

static struct lnetd_event next(lnetd_tm *tm)
{
	struct lnetd_event e;
	int n;
	while ((n = lnetd_events(tm, &e, 1)) == 0) {
		int r = lnetd_wait(tm, PATIENCE);
		CHECK(r != 0, "a wake-up was lost");
		MUST(r);
	}
	MUST(n);
	CHECK(e.status == 0, "an event of type %u with status %d", e.type, e.status);
	return e;
}

static void *look(void *tm)
{
	const struct timespec pause = { .tv_nsec = 10000 };
	while (!atomic_load(&over)) {
		for (int i = 0; i < 50; i++)
			lnetd_pending(tm);
		nanosleep(&pause, NULL);
	}
	return NULL;
}

// ---- wakeups ----

struct side {
	lnetd_tm *tm;
	struct lnetd_addr peer;
	lnetd_buf *in, *out;
	bool first;
};

// await waits for the message of the peer, unless it is not to come, and until the own one was sent.
static void await(struct side *s, bool received, bool sent)
{
	while (!received || !sent) {
		struct lnetd_event e = next(s->tm);
		received |= e.type == LNETD_RECV;
		sent |= e.type == LNETD_SEND;
	}
}

// play exchanges messages. A message that begins with 1 is the last one of the first side.
static void *play(void *argument)
{
	struct side *s = argument;
	uint8_t *out = lnetd_at(s->out, 0, NULL), *in = lnetd_at(s->in, 0, NULL);
	time_t end = time(NULL) + (seconds ? (time_t)seconds : 1 << 24);
	for (unsigned i = 0;; i++) {
		if (i > 0 || !s->first)
			await(s, false, i == 0);
		if (s->first && i > 0 && *out)
			break; // this was the answer to the last one
		*out = s->first ? i + 1 >= count || time(NULL) >= end : *in;
		MUST(lnetd_recv(s->tm, s->in, MESSAGE, 1));
		MUST(lnetd_send(s->tm, s->out, MESSAGE, &s->peer));
		if (!s->first && *out) {
			await(s, true, false);
			break;
		}
	}
	return NULL;
}

static void wakeups(void)
{
	MUST(lnetd_set_spin(domain, 0)); // so that each wait is a sleep
	exchanging = true;
	struct side sides[2] = { { .first = true }, { .first = false } };
	struct lnetd_addr at[2];
	pthread_t players[2], lookers[2];
	for (int i = 0; i < 2; i++) {
		sides[i].tm = start(&at[i]);
		sides[i].in = buffer(MESSAGE, NULL);
		sides[i].out = buffer(MESSAGE, NULL);
	}
	for (int i = 0; i < 2; i++)
		sides[i].peer = at[1 - i];
	MUST(lnetd_recv(sides[1].tm, sides[1].in, MESSAGE, 1)); // of the first message
	MUST(lnetd_sync(sides[1].tm, PATIENCE));
	for (int i = 0; i < 2; i++) {
		CHECK(pthread_create(&lookers[i], NULL, look, sides[i].tm) == 0, "pthread_create");
		CHECK(pthread_create(&players[i], NULL, play, &sides[i]) == 0, "pthread_create");
	}
	for (int i = 0; i < 2; i++)
		pthread_join(players[i], NULL);
	atomic_store(&over, true);
	for (int i = 0; i < 2; i++)
		pthread_join(lookers[i], NULL);
}

// ---- many ----

static struct sender {
	lnetd_buf *buffer;
	_Atomic unsigned open; // the final event, and the arrival of the message, which are to come
} senders[SENDERS];

static lnetd_tm *shared_tm;
static struct lnetd_addr shared_at;
static atomic_uint submitted, arrived;

// submit sends messages, each in a separate batch if batches is not NULL.
static void *submit(void *batches)
{
	while (atomic_fetch_add(&submitted, 1) < count) {
		struct sender *s = NULL;
		while (!s) {
			for (unsigned i = 0; i < SENDERS && !s; i++) {
				unsigned zero = 0;
				if (atomic_compare_exchange_strong(&senders[i].open, &zero, 2))
					s = &senders[i];
			}
			if (!s)
				sched_yield();
		}
		uint32_t name = (uint32_t)(s - senders);
		memcpy(lnetd_at(s->buffer, 0, NULL), &name, sizeof name);
		if (batches)
			MUST(lnetd_begin(shared_tm));
		MUST(lnetd_send(shared_tm, s->buffer, MESSAGE, &shared_at));
		if (batches)
			MUST(lnetd_commit(shared_tm));
	}
	return NULL;
}

static void *take(void *waits)
{
	struct lnetd_event e[4];
	while (atomic_load(&arrived) < count) {
		int n = lnetd_events(shared_tm, e, 4);
		MUST(n);
		if (n == 0 && waits)
			MUST(lnetd_wait(shared_tm, 100));
		else if (n == 0)
			sched_yield();
		for (int i = 0; i < n; i++) {
			CHECK(e[i].status == 0, "an event of type %u with status %d", e[i].type, e[i].status);
			if (e[i].type == LNETD_SEND) {
				atomic_fetch_sub(&((struct sender *)e[i].data)->open, 1);
				continue;
			}
			uint32_t name;
			memcpy(&name, lnetd_at(e[i].buffer, e[i].offset, NULL), sizeof name);
			CHECK(name < SENDERS && e[i].flags == (LNETD_MESSAGE | LNETD_FINAL), "message of %u, flags %#x", name, e[i].flags);
			MUST(lnetd_recv(shared_tm, e[i].buffer, MESSAGE, 1));
			MUST(lnetd_sync(shared_tm, PATIENCE)); // before another message is sent
			atomic_fetch_sub(&senders[name].open, 1);
			atomic_fetch_add(&arrived, 1);
		}
	}
	return NULL;
}

static void many(void)
{
	pthread_t submitters[SUBMITTERS], takers[TAKERS], looker;
	shared_tm = start(&shared_at);
	for (int i = 0; i < SENDERS; i++)
		senders[i].buffer = buffer(MESSAGE, &senders[i]);
	for (int i = 0; i < RECEIVERS; i++)
		MUST(lnetd_recv(shared_tm, buffer(MESSAGE, NULL), MESSAGE, 1));
	for (int i = 0; i < TAKERS; i++)
		CHECK(pthread_create(&takers[i], NULL, take, i == 0 ? shared_tm : NULL) == 0, "pthread_create");
	CHECK(pthread_create(&looker, NULL, look, shared_tm) == 0, "pthread_create");
	for (int i = 0; i < SUBMITTERS; i++)
		CHECK(pthread_create(&submitters[i], NULL, submit, i > 0 ? shared_tm : NULL) == 0, "pthread_create");
	for (int i = 0; i < SUBMITTERS; i++)
		pthread_join(submitters[i], NULL);
	for (int i = 0; i < TAKERS; i++)
		pthread_join(takers[i], NULL);
	atomic_store(&over, true);
	pthread_join(looker, NULL);
	CHECK(atomic_load(&arrived) == count, "%u messages", atomic_load(&arrived));
}

// ---- flood ----

static void flood(void)
{
	struct lnetd_addr to, from;
	struct lnetd_event e = { 0 };
	lnetd_tm *receiver = start(&to), *sender = start(&from);
	lnetd_buf *in[2], *out = buffer(MESSAGE, NULL);
	uint32_t *m = lnetd_at(out, 0, NULL), got;
	for (int i = 0; i < 2; i++) {
		in[i] = buffer(1 << 20, NULL);
		MUST(lnetd_recv(receiver, in[i], MESSAGE, (count + 1) / 2));
	}
	MUST(lnetd_sync(receiver, PATIENCE));
	for (*m = 0; *m < count; ++*m) {
		MUST(lnetd_send(sender, out, sizeof *m, &to));
		next(sender);
	}
	for (uint32_t i = 0; i < count; i++) {
		e = next(receiver);
		CHECK(e.flags & LNETD_MESSAGE && e.length == sizeof got, "event %u has flags %#x", i, e.flags);
		memcpy(&got, lnetd_at(e.buffer, e.offset, NULL), sizeof got);
		CHECK(got == i, "message %u comes as number %u", got, i);
	}
	CHECK(e.flags & LNETD_FINAL, "the last event is not final");
}

// ---- sync ----

static atomic_uint syncs; // calls of lnetd_sync that have returned

static void *submit_batches(void *b)
{
	struct lnetd_event e;
	for (unsigned i = 0; i < count; i++) {
		MUST(lnetd_begin(shared_tm));
		MUST(lnetd_recv(shared_tm, b, MESSAGE, 1));
		MUST(lnetd_cancel(shared_tm, b));
		unsigned before = atomic_load(&syncs);
		while (atomic_load(&syncs) == before)
			sched_yield();
		MUST(lnetd_commit(shared_tm));
		int n;
		while ((n = lnetd_events(shared_tm, &e, 1)) == 0)
			CHECK(lnetd_wait(shared_tm, PATIENCE) == 1, "no event comes");
		MUST(n);
		CHECK(e.status == -ECANCELED, "an event of type %u with status %d", e.type, e.status);
	}
	atomic_store(&over, true);
	return NULL;
}

static void sync_meanwhile(void)
{
	pthread_t submitter;
	shared_tm = start(&shared_at);
	CHECK(pthread_create(&submitter, NULL, submit_batches, buffer(MESSAGE, NULL)) == 0, "pthread_create");
	while (!atomic_load(&over)) {
		MUST(lnetd_sync(shared_tm, PATIENCE)); // it does not wait for an operation that it has not shown lnetd
		atomic_fetch_add(&syncs, 1);
	}
	pthread_join(submitter, NULL);
}

int main(int argc, char **argv)
{
	CHECK(argc >= 4, "usage: threads wakeups|many|flood|sync SOCKET N [SECONDS]");
	count = (unsigned)atoi(argv[3]);
	seconds = argc > 4 ? (unsigned)atoi(argv[4]) : 0;
	MUST(lnetd_open(&domain, argv[2], NULL, 0));
	switch (argv[1][0]) {
	case 'w':
		wakeups();
		break;
	case 'm':
		many();
		break;
	case 's':
		sync_meanwhile();
		break;
	default:
		flood();
	}
	lnetd_close(domain);
	puts("ok");
	return 0;
}
