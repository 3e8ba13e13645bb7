// Waiting: for events, and until lnetd has carried out submissions.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

enum { MILLISECOND = 1000000 };

int lnetd_tm_fd(const lnetd_tm *tm) { return tm->ring.woken; }

// drain reads the tokens of a TM. It returns false at the end of file, or after an error.
static bool drain(lnetd_tm *tm)
{
	char tokens[256];
	for (int i = 0; i < 64; i++) { // a limit, in case lnetd writes without end
		ssize_t n = recv(tm->ring.woken, tokens, sizeof tokens, MSG_DONTWAIT);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			return false;
		if (n < 0 && errno == EAGAIN)
			break;
	}
	return true;
}

int lnetd_tm_arm(lnetd_tm *tm)
{
	lnetd *d = tm->domain;
	if (atomic_load(&tm->down))
		return lni_tm_ended(tm);
	if (!drain(tm) && lni_try_hear(d)) { // otherwise a request is in progress, and will end
		lni_end(d, EPIPE, "lnetd has closed the ring of a TM: it has died"); // unless lnetd has said why
		atomic_store(&tm->over, true);
		return 1;
	}
	atomic_store(tm->ring.cq_sleeping, 1);
	if (!lnetd_pending(tm))
		return 0;
	atomic_store_explicit(tm->ring.cq_sleeping, 0, memory_order_relaxed);
	return 1;
}

// check_life asks lnetd for an answer if it has been silent, and returns -ETIMEDOUT if no answer comes. *wait receives
// when to call it again, in ns of lni_now.
static int check_life(lnetd *d, int64_t *wait)
{
	int64_t now = lni_now(), patience = (int64_t)atomic_load(&d->patience) * MILLISECOND;
	int64_t asked = atomic_load(&d->asked), since = asked ? asked : atomic_load(&d->heard);
	*wait = since + patience;
	if (now < *wait)
		return 0;
	*wait = now + patience;
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

// wait_once sleeps until there may be events, at most until the time end, unless it is 0.
static int wait_once(lnetd_tm *tm, int64_t end, bool *busy)
{
	lnetd *d = tm->domain;
	int64_t until = 0;
	int result = check_life(d, &until);
	if (result < 0)
		return result;
	if (end && end < until)
		until = end;
	int64_t left = (until - lni_now() + MILLISECOND - 1) / MILLISECOND;
	if (*busy && left > 10)
		left = 10; // another thread reads the connection
	if (left > 1000)
		left = 1000; // another thread may have read that lnetd ends, which is an event of each TM
	struct pollfd p[2] = { { .fd = tm->ring.woken, .events = POLLIN }, { .fd = *busy ? -1 : d->socket, .events = POLLIN } };
	int n = poll(p, 2, left < 0 ? 0 : (int)left);
	atomic_store_explicit(tm->ring.cq_sleeping, 0, memory_order_relaxed);
	if (n < 0 && errno != EINTR)
		return lni_fail(errno, "poll: %s", strerror(errno));
	*busy = false;
	if (n > 0 && p[1].revents)
		*busy = !lni_try_hear(d);
	return 0;
}

int lnetd_wait(lnetd_tm *tm, int milliseconds)
{
	int64_t end = milliseconds < 0 ? 0 : lni_now() + (int64_t)milliseconds * MILLISECOND;
	bool busy = false;
	if (lnetd_pending(tm))
		return 1;
	if (atomic_exchange(&tm->waiting, true))
		return lni_fail(EBUSY, "another thread waits for the TM");
	int result;
	while ((result = lnetd_tm_arm(tm)) == 0) {
		if (end && lni_now() >= end) {
			atomic_store_explicit(tm->ring.cq_sleeping, 0, memory_order_relaxed);
			break;
		}
		if ((result = wait_once(tm, end, &busy)) < 0)
			break;
	}
	if (result == 1)
		atomic_store(&tm->domain->heard, lni_now());
	atomic_store(&tm->waiting, false);
	return result;
}

static bool posted(lnetd_tm *tm, uint32_t tail) { return (int32_t)(atomic_load(tm->ring.sq_posted) - tail) >= 0; }

// sleep_posted sleeps for some milliseconds at most, or until lnetd has carried out submissions. Only one thread
// sleeps.
static void sleep_posted(lnetd_tm *tm, uint32_t tail, int milliseconds)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_nsec += (long)milliseconds * MILLISECOND;
	t.tv_sec += t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	if (pthread_mutex_timedlock(&tm->sleep, &t) != 0)
		return;
	atomic_store(tm->ring.sq_waiting, 1);
	if (!posted(tm, tail)) {
		const struct timespec time = { milliseconds / 1000, (long)(milliseconds % 1000) * MILLISECOND };
		syscall(SYS_futex, tm->ring.sq_waiting, FUTEX_WAIT, 1, &time, NULL, 0);
	}
	pthread_mutex_unlock(&tm->sleep);
}

int lnetd_sync(lnetd_tm *tm, int milliseconds)
{
	int64_t start = lni_now(), now = start;
	int result = lni_tm_ended(tm);
	if (result < 0)
		return result;
	uint32_t tail = atomic_load(&tm->tail);
	while (!posted(tm, tail)) {
		int64_t left = milliseconds < 0 ? 100 : milliseconds - (now - start) / MILLISECOND;
		if (left <= 0)
			return lni_fail(ETIMEDOUT, "lnetd has not carried out all operations in %d ms", milliseconds);
		if (now - start < 20000)
			sched_yield();
		else
			sleep_posted(tm, tail, left < 100 ? (int)left : 100);
		now = lni_now();
		if (now - start > MILLISECOND)
			lni_try_hear(tm->domain);
		if (!posted(tm, tail) && (result = lni_tm_ended(tm)) < 0)
			return result;
	}
	return 0;
}
