// Waiting: for events, and until lnetd has carried out submissions.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "internal.h"

enum {
	MILLISECOND = 1000000,
	WORD_TIME = 20 * MILLISECOND, // after the last event a thread sleeps on the word, and after this time at the descriptors
	LOOK_TIME = 20 * MILLISECOND, // while there are events the connection is looked at after this time
};

int lnetd_tm_fd(const lnetd_tm *tm) { return tm->ring.woken; }

// drain reads the tokens of a TM. It returns false at the end of file, or after an error.
static bool drain(lnetd_tm *tm)
{
	char tokens[256];
	ssize_t n = sizeof tokens;
	for (int i = 0; i < 64 && n == sizeof tokens; i++) // a limit, in case lnetd writes without end
		do
			n = recv(tm->ring.woken, tokens, sizeof tokens, MSG_DONTWAIT);
		while (n < 0 && errno == EINTR);
	return n > 0 || (n < 0 && errno == EAGAIN);
}

// empty reads the tokens of a TM. After the end of file the TM is over. That may be found out later, if another thread
// makes a request, which will end.
static void empty(lnetd_tm *tm)
{
	if (!drain(tm) && lni_try_hear(tm->domain)) {
		lni_end(tm->domain, EPIPE, "lnetd has closed the ring of a TM: it has died"); // unless lnetd has said why
		atomic_store(&tm->over, true);
	}
}

static void awake(lnetd_tm *tm) { atomic_store_explicit(tm->ring.cq_sleeping, AWAKE, memory_order_relaxed); }

// announce tells lnetd how this thread is going to sleep. It returns false if there are events.
static bool announce(lnetd_tm *tm, enum sleeping how)
{
	atomic_store(tm->ring.cq_sleeping, how);
	if (!lnetd_pending(tm))
		return true;
	awake(tm);
	return false;
}

int lnetd_tm_arm(lnetd_tm *tm)
{
	if (atomic_load(&tm->down))
		return lni_tm_ended(tm);
	lni_show(tm);
	empty(tm);
	return announce(tm, AT_DESCRIPTOR) ? 0 : 1;
}

// check_life asks lnetd for an answer if it has been silent, and returns -ETIMEDOUT if no answer comes. *again receives
// when to call it again. Times are in ns of lni_now.
static int check_life(lnetd *d, int64_t now, int64_t *again)
{
	int64_t patience = (int64_t)atomic_load(&d->patience) * MILLISECOND;
	int64_t asked = atomic_load(&d->asked), since = asked ? asked : atomic_load(&d->heard);
	*again = since + patience;
	if (now < *again)
		return 0;
	*again = now + patience;
	if (!lni_try_hear(d))
		return 0; // another thread waits for an answer, and limits its time
	asked = atomic_load(&d->asked);
	if (!asked && now - atomic_load(&d->heard) < patience)
		return 0;
	if (atomic_load(&d->error)) { // lnetd has announced the end of the connection, but it does not come
		lni_break(d, ETIMEDOUT, "lnetd does not answer");
	} else if (asked) {
		atomic_store(&d->asked, now); // the next report comes later
		return lni_fail(ETIMEDOUT, "lnetd does not answer");
	} else {
		lni_send_nop(d);
	}
	return 0;
}

// sleep_on_word sleeps until lnetd has written completions, for some time in ns at most.
static void sleep_on_word(lnetd_tm *tm, int64_t time)
{
	if (announce(tm, ON_WORD)) {
		lni_sleep(tm->ring.cq_sleeping, ON_WORD, time);
		awake(tm);
	}
}

// sleep_at_descriptors sleeps until lnetd has written completions, or says something on the connection, at most until
// the time end. *busy remembers that another thread reads the connection.
static int sleep_at_descriptors(lnetd_tm *tm, int64_t now, int64_t end, bool *busy)
{
	lnetd *d = tm->domain;
	int64_t until;
	int result = check_life(d, now, &until);
	if (result < 0)
		return result;
	if (end < until)
		until = end;
	int64_t left = (until - now + MILLISECOND - 1) / MILLISECOND;
	if (*busy && left > 10)
		left = 10;
	if (left > 1000)
		left = 1000; // another thread may have read that lnetd ends, which is an event of each TM
	if (!announce(tm, AT_DESCRIPTOR))
		return 0;
	struct pollfd p[2] = { { .fd = tm->ring.woken, .events = POLLIN }, { .fd = *busy ? -1 : d->socket, .events = POLLIN } };
	int n = poll(p, 2, left < 0 ? 0 : (int)left);
	awake(tm);
	if (n < 0 && errno != EINTR)
		return lni_fail(errno, "poll: %s", strerror(errno));
	*busy = false;
	if (n > 0 && p[1].revents)
		*busy = !lni_try_hear(d);
	if (n > 0 && p[0].revents)
		empty(tm);
	return 0;
}

// begin_wait notes what has happened since the last wait, and looks at the connection if it was not looked at for long.
static void begin_wait(lnetd_tm *tm, int64_t now)
{
	uint32_t head = atomic_load_explicit(&tm->head, memory_order_relaxed);
	if (head != tm->waited_head) {
		tm->waited_head = head;
		tm->word_until = tm->futex ? now + WORD_TIME : 0;
		atomic_store(&tm->domain->heard, now);
	}
	if (now - tm->looked >= LOOK_TIME) {
		tm->looked = now;
		lni_try_hear(tm->domain);
	}
}

static bool eventful(lnetd_tm *tm, uint32_t tail)
{
	(void)tail;
	return lnetd_pending(tm);
}

// after returns the time after so many milliseconds. -1 has no limit.
static int64_t after(int64_t now, int milliseconds)
{
	return milliseconds < 0 ? INT64_MAX : now + (int64_t)milliseconds * MILLISECOND;
}

// await_events is lnetd_wait in a thread that may wait.
static int await_events(lnetd_tm *tm, int milliseconds)
{
	int64_t now = lni_now(), end = after(now, milliseconds);
	bool busy = false;
	int result = 0;
	if (atomic_load(&tm->down))
		return lni_tm_ended(tm);
	lni_show(tm);
	begin_wait(tm, now);
	if (milliseconds != 0 && lni_spin(tm, &tm->wait_spin, eventful, 0, end, &now))
		return 1;
	while (!lnetd_pending(tm)) {
		if (atomic_load(&tm->down))
			return lni_tm_ended(tm);
		if (now >= end)
			return 0;
		if (now < tm->word_until)
			sleep_on_word(tm, (end < tm->word_until ? end : tm->word_until) - now);
		else if ((result = sleep_at_descriptors(tm, now, end, &busy)) < 0)
			return result;
		if (lnetd_pending(tm))
			break;
		now = lni_now();
	}
	return 1;
}

int lnetd_wait(lnetd_tm *tm, int milliseconds)
{
	if (lnetd_pending(tm))
		return 1;
	if (atomic_exchange(&tm->waiting, true))
		return lni_fail(EBUSY, "another thread waits for the TM");
	int result = await_events(tm, milliseconds);
	atomic_store(&tm->waiting, false);
	return result;
}

static bool posted(lnetd_tm *tm, uint32_t tail) { return (int32_t)(atomic_load(tm->ring.sq_posted) - tail) >= 0; }

// sleep_posted sleeps for some milliseconds at most, or until lnetd has carried out submissions. Only one thread
// sleeps.
static void sleep_posted(lnetd_tm *tm, uint32_t tail, int64_t milliseconds)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_nsec += (long)milliseconds * MILLISECOND;
	t.tv_sec += t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	if (pthread_mutex_timedlock(&tm->sleep, &t) != 0)
		return;
	atomic_store(tm->ring.sq_waiting, 1);
	if (!posted(tm, tail))
		lni_sleep(tm->ring.sq_waiting, 1, milliseconds * MILLISECOND);
	pthread_mutex_unlock(&tm->sleep);
}

int lnetd_sync(lnetd_tm *tm, int milliseconds)
{
	int result = lni_tm_ended(tm);
	if (result < 0)
		return result;
	uint32_t tail = atomic_load(&tm->tail); // before all are shown: batches of other threads may add more
	lni_show(tm);
	if (posted(tm, tail))
		return 0;
	int64_t start = lni_now(), now = start;
	if (milliseconds != 0)
		lni_spin(tm, &tm->sync_spin, posted, tail, after(start, milliseconds), &now);
	while (!posted(tm, tail)) {
		int64_t left = milliseconds < 0 ? 100 : milliseconds - (now - start) / MILLISECOND;
		if (left <= 0)
			return lni_fail(ETIMEDOUT, "lnetd has not carried out all operations in %d ms", milliseconds);
		sleep_posted(tm, tail, left < 100 ? left : 100);
		now = lni_now();
		if (now - start > MILLISECOND)
			lni_try_hear(tm->domain);
		if (!posted(tm, tail) && (result = lni_tm_ended(tm)) < 0)
			return result;
	}
	return 0;
}
