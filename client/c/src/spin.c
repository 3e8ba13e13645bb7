// Yielding the processor for a short time, before a thread sleeps.
#define _GNU_SOURCE
#include <sched.h>

#include "internal.h"

enum {
	SHORTEST = 16,          // a spin is at least this part of the longest one
	SKIPPED = 32,           // waits without a spin, after spins that found nothing
	SLOW_YIELD = 50000,     // ns; then other threads need the processor,
	RECESS = 100 * 1000000, // and there is no spin for this time, in ns
};

// next returns how long to spin now, in ns. After some spins in a row that found nothing it is 0, except sometimes.
static uint32_t next(struct spin *s, uint32_t most, int64_t now)
{
	uint32_t time = atomic_load_explicit(&s->time, memory_order_relaxed);
	if (most == 0 || now < atomic_load_explicit(&s->recess, memory_order_relaxed))
		return 0;
	if (time >= most / SHORTEST)
		return time < most ? time : most;
	return atomic_fetch_add_explicit(&s->skipped, 1, memory_order_relaxed) % SKIPPED == SKIPPED - 1 ? most : 0;
}

bool lni_spin(lnetd_tm *tm, struct spin *s, bool (*ready)(lnetd_tm *tm, uint32_t tail), uint32_t tail, int64_t limit, int64_t *now)
{
	uint32_t time = next(s, atomic_load_explicit(&tm->domain->spin, memory_order_relaxed), *now);
	uint32_t last = atomic_load_explicit(&s->time, memory_order_relaxed);
	int64_t end = *now + time < limit ? *now + time : limit;
	bool found = false;
	while (!found && *now < end) {
		int64_t before = *now;
		sched_yield();
		found = ready(tm, tail);
		*now = lni_now();
		if (*now - before > SLOW_YIELD) {
			atomic_store_explicit(&s->recess, *now + RECESS, memory_order_relaxed);
			return found;
		}
	}
	if (found)
		atomic_store_explicit(&s->time, 2 * time, memory_order_relaxed);
	else if (time)
		atomic_store_explicit(&s->time, (last < time ? last : time) / 2, memory_order_relaxed);
	return found;
}
