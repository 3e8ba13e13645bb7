// Events: completions that lnetd has written, and those that the library makes when the connection has ended.
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>

#include "internal.h"

// over reports whether nothing more comes into the ring.
static bool over(lnetd_tm *tm) { return atomic_load(&tm->over) || atomic_load(&tm->domain->over); }

static bool must_tell_ending(lnetd_tm *tm)
{
	return atomic_load_explicit(&tm->domain->ending, memory_order_relaxed) && !atomic_load(&tm->ending_told);
}

int lnetd_pending(lnetd_tm *tm)
{
	if (atomic_load(&tm->down))
		return 0;
	// The head is loaded first: the ring is only empty if no other thread has moved the head beyond this tail.
	uint32_t head = atomic_load(&tm->head);
	return atomic_load(tm->ring.cq_tail) != head || over(tm) || must_tell_ending(tm);
}

// end_operation gives the buffer back to the program.
static void end_operation(lnetd_tm *tm, lnetd_buf *b)
{
	tm->operations--;
	atomic_store(&b->tm, NULL);
}

// message checks and fills in an event for a message.
static bool message(lnetd_buf *b, const struct wire_completion *c, struct lnetd_event *e)
{
	if (b->messages == 0 || c->length > b->longest || c->offset > b->size || c->length > b->size - c->offset || !lni_nid_valid(&c->sender))
		return false;
	b->messages--;
	e->flags |= LNETD_MESSAGE;
	e->offset = c->offset;
	e->length = c->length;
	e->peer = (struct lnetd_addr){ c->sender, c->pid, c->portal, c->tmid };
	lni_buf_copy(b, c->offset, c->length, false);
	return true;
}

// translate makes an event of a completion, which may contain anything. It returns 1, 0 if there is nothing to report,
// or -1 if the completion is invalid. tm->lock and the table are locked.
static int translate(lnetd_tm *tm, const struct wire_completion *c, struct lnetd_event *e)
{
	lnetd *d = tm->domain;
	bool final = c->flags & COMPLETION_FINAL;
	memset(e, 0, sizeof *e);
	e->status = c->status;
	e->time = c->time;
	if (c->zero[0] || c->zero[1] || c->zero[2] || c->status > 0 || c->status < -4095)
		return -1;
	if (c->flags == COMPLETION_TM) {
		e->type = LNETD_LOST;
		return c->buffer || c->generation || c->operation ? -1 : 1;
	}
	if ((c->flags & ~(COMPLETION_FINAL | COMPLETION_REJECTED)) || (c->flags & COMPLETION_REJECTED && !final))
		return -1;
	lnetd_buf *b = c->buffer < d->by_index_size ? d->by_index[c->buffer] : NULL;
	if (!b || atomic_load(&b->tm) != tm || b->name.generation != c->generation || b->operation != c->operation)
		return -1;
	e->buffer = b;
	e->data = b->data;
	e->type = b->opcode;
	e->flags = (final ? LNETD_FINAL : 0) | (c->flags & COMPLETION_REJECTED ? LNETD_REJECTED : 0);
	if (b->opcode != LNETD_RECV && !final)
		return -1;
	if (c->status == 0 && b->opcode == LNETD_RECV) {
		if (lni_nid_zero(&c->sender)) { // a sender that is not a TM has used up room
			if (!final)
				return 0;
		} else if (!message(b, c, e)) {
			return -1;
		}
	} else if (c->status == 0 && (b->opcode == LNETD_PASSIVE_IN || b->opcode == LNETD_ACTIVE_IN)) {
		if (c->length > b->length)
			return -1;
		e->length = c->length;
		lni_buf_copy(b, 0, c->length, false);
	}
	if (final)
		end_operation(tm, b);
	return 1;
}

// reap takes completions out of the ring.
static int reap(lnetd_tm *tm, struct lnetd_event *events, int most)
{
	const struct ring *r = &tm->ring;
	uint32_t first = atomic_load_explicit(&tm->head, memory_order_relaxed), head = first;
	uint32_t unread = atomic_load_explicit(r->cq_tail, memory_order_acquire) - head;
	int n = 0, valid = unread <= r->cq_entries ? 1 : -1;
	for (; valid >= 0 && unread > 0 && n < most; unread--) {
		struct wire_completion c;
		memcpy(&c, &r->cq[head & (r->cq_entries - 1)], sizeof c);
		valid = translate(tm, &c, &events[n]);
		n += valid > 0;
		head++;
	}
	if (head != first)
		lni_ring_release(tm, head);
	if (valid < 0) {
		tm->broken = true;
		lni_break(tm->domain, EPROTO, "lnetd has written an invalid completion");
	}
	return n;
}

// finish makes the final events of operations that have not ended, and then LNETD_DOWN.
static int finish(lnetd_tm *tm, struct lnetd_event *events, int most)
{
	lnetd *d = tm->domain;
	int error = atomic_load(&d->error), n = 0;
	for (; tm->operations && tm->cursor < d->by_index_size && n < most; tm->cursor++) {
		lnetd_buf *b = d->by_index[tm->cursor];
		if (b && atomic_load(&b->tm) == tm) {
			events[n++] = (struct lnetd_event){
				.buffer = b, .data = b->data, .type = b->opcode, .flags = LNETD_FINAL, .status = error ? -error : -EPIPE,
			};
			end_operation(tm, b);
		}
	}
	if (n < most && !tm->operations) {
		events[n++] = (struct lnetd_event){ .type = LNETD_DOWN, .status = error ? -error : -EPIPE };
		atomic_store(&tm->down, true);
	}
	return n;
}

int lnetd_events(lnetd_tm *tm, struct lnetd_event *events, int most)
{
	lnetd *d = tm->domain;
	int n = 0;
	pthread_mutex_lock(&tm->lock);
	if (atomic_load(&tm->down)) {
		pthread_mutex_unlock(&tm->lock);
		return lni_tm_ended(tm);
	}
	bool last = over(tm); // before the ring is read: then it has all completions
	pthread_rwlock_rdlock(&d->table);
	if (!tm->broken)
		n = reap(tm, events, most);
	if (n < most && must_tell_ending(tm)) {
		int64_t left = (atomic_load(&d->ending) - lni_now()) / 1000000000;
		events[n++] = (struct lnetd_event){ .type = LNETD_ENDING, .length = left > 0 ? (uint32_t)left : 0 };
		atomic_store(&tm->ending_told, true);
	}
	if (n < most && (last || tm->broken))
		n += finish(tm, events + n, most - n);
	pthread_rwlock_unlock(&d->table);
	pthread_mutex_unlock(&tm->lock);
	return n;
}
