// Transfer machines and their operations.
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

enum { DEFAULT_COMPLETIONS = 1024, MOST_COMPLETIONS = 16384, SUBMISSIONS_PER_COMPLETION = 4, COUNTER_BITS = 52 };

// start sends TM_START for a number, and maps the ring.
static int start(lnetd *d, lnetd_tm *tm, uint32_t tmid)
{
	struct wire_tm_start s = { tm->wanted.nid, tm->wanted.pid, tm->wanted.portal, tmid, tm->completions, 0 };
	struct wire_tm_start_reply r;
	struct reply reply;
	int result = lni_request(d, OP_TM_START, &s, sizeof s, -1, sizeof r, &reply);
	if (result < 0)
		return result;
	memcpy(&r, reply.body, sizeof r);
	if (r.tmid < 1 || r.tmid >= LNETD_ANY_TM || (tmid != LNETD_ANY_TM && r.tmid != tmid) || r.completions < tm->completions ||
	    r.completions > MOST_COMPLETIONS || (r.completions & (r.completions - 1)) || r.zero || r.match_bits >> COUNTER_BITS != r.tmid ||
	    r.submissions != SUBMISSIONS_PER_COMPLETION * r.completions)
		result = lni_fail(EPROTO, "the reply of lnetd to TM_START is invalid");
	else if (reply.fds[0] < 0)
		result = lni_fail(EMFILE, "too many open files");
	else
		result = lni_ring_map(&tm->ring, reply.fds, r.completions, r.submissions);
	if (result < 0) {
		lni_close_fds(reply.fds);
		if (result == -EPROTO) {
			lni_break(d, EPROTO, lnetd_text());
			return lni_ended(d);
		}
		int kept = lni_request(d, OP_TM_STOP, &r.handle, sizeof r.handle, -1, ANY_SIZE, &reply);
		return kept < 0 ? kept : lni_fail(result, "map the ring of a TM: %s", strerror(-result));
	}
	tm->addr = tm->wanted;
	tm->addr.tmid = r.tmid;
	tm->handle = r.handle;
	tm->match_bits = r.match_bits;
	tm->operations = tm->cursor = 0;
	tm->broken = tm->stopping = false;
	tm->futex = d->hello.features & FEATURE_FUTEX;
	tm->waited_head = atomic_load(tm->ring.cq_head); // they do not begin at 0
	atomic_store(&tm->head, tm->waited_head);
	atomic_store(&tm->tail, atomic_load(tm->ring.sq_tail));
	atomic_store(&tm->shown, atomic_load(&tm->tail));
	atomic_store(&tm->wait_spin.time, UINT32_MAX / 2);
	atomic_store(&tm->sync_spin.time, UINT32_MAX / 2);
	return 0;
}

int lni_tm_offer(lnetd *d, lnetd_tm *tm)
{
	int result = start(d, tm, tm->addr.tmid);
	if (result == -EADDRINUSE && tm->wanted.tmid == LNETD_ANY_TM && !atomic_load(&d->error))
		result = start(d, tm, LNETD_ANY_TM); // its earlier number is in use
	return result;
}

void lni_tm_free(lnetd_tm *tm)
{
	if (tm->link) {
		*tm->link = tm->next;
		if (tm->next)
			tm->next->link = tm->link;
	}
	lni_ring_unmap(&tm->ring);
	pthread_mutex_destroy(&tm->lock);
	pthread_mutex_destroy(&tm->sleep);
	free(tm);
}

int lnetd_tm_start(lnetd *d, const struct lnetd_addr *addr, uint32_t completions, lnetd_tm **out)
{
	if (completions > MOST_COMPLETIONS || !lni_nid_valid(&addr->nid) || addr->tmid < 1 || addr->tmid > LNETD_ANY_TM)
		return lni_fail(EINVAL, "the address of the TM is invalid, or %u completions are more than %d", completions, MOST_COMPLETIONS);
	lnetd_tm *tm = calloc(1, sizeof *tm);
	if (!tm)
		return lni_fail(ENOMEM, "no memory for a TM");
	tm->domain = d;
	tm->wanted = tm->addr = *addr;
	tm->completions = completions ? completions : DEFAULT_COMPLETIONS;
	tm->ring.wake_lnetd = tm->ring.woken = -1;
	pthread_mutex_init(&tm->lock, NULL);
	pthread_mutex_init(&tm->sleep, NULL);
	int result = lni_lock(d);
	if (result == 0) {
		result = lni_tm_offer(d, tm);
		if (result == 0) {
			tm->next = d->tms;
			if (tm->next)
				tm->next->link = &tm->next;
			tm->link = &d->tms;
			d->tms = tm;
		}
		pthread_mutex_unlock(&d->request);
	}
	if (result < 0)
		lni_tm_free(tm);
	else
		*out = tm;
	return result;
}

int lnetd_tm_stop(lnetd_tm *tm)
{
	lnetd *d = tm->domain;
	struct reply reply;
	int result = 0;
	pthread_mutex_lock(&tm->lock);
	if (tm->operations)
		result = lni_fail(EBUSY, "%u operations of the TM are in progress, or their events have not been taken", tm->operations);
	tm->stopping = result == 0;
	pthread_mutex_unlock(&tm->lock);
	if (result < 0)
		return result;
	pthread_mutex_lock(&d->request);
	if (!atomic_load(&d->error))
		result = lni_request(d, OP_TM_STOP, &tm->handle, sizeof tm->handle, -1, ANY_SIZE, &reply);
	if (result == 0 || atomic_load(&d->error)) {
		lni_tm_free(tm);
		result = 0;
	} else {
		pthread_mutex_lock(&tm->lock);
		tm->stopping = false;
		pthread_mutex_unlock(&tm->lock);
	}
	pthread_mutex_unlock(&d->request);
	return result;
}

void lnetd_tm_addr(const lnetd_tm *tm, struct lnetd_addr *addr) { *addr = tm->addr; }

int lni_tm_ended(lnetd_tm *tm)
{
	int result = lni_ended(tm->domain);
	if (result == 0 && (atomic_load(&tm->over) || atomic_load(&tm->down)))
		result = lni_fail(EPIPE, "lnetd no longer uses the ring of the TM");
	return result;
}

// begin submits an operation of a buffer. The operation may receive most bytes. bits is NULL, or receives match bits of
// the TM, which the submission then has as well.
static int begin(lnetd_tm *tm, lnetd_buf *b, struct wire_submission *s, uint32_t most, uint64_t *bits)
{
	lnetd_tm *none = NULL;
	pthread_mutex_lock(&tm->lock);
	int result = lni_tm_ended(tm);
	if (result == 0 && (tm->stopping || b->domain != tm->domain))
		result = lni_fail(EINVAL, "the TM is being stopped, or the buffer belongs to another connection");
	else if (result == 0 && !atomic_compare_exchange_strong(&b->tm, &none, tm))
		result = lni_fail(EBUSY, "the buffer has an operation");
	if (result < 0) {
		pthread_mutex_unlock(&tm->lock);
		return result;
	}
	s->buffer = b->name.index;
	s->generation = b->name.generation;
	s->operation = ++b->operation;
	if (bits) {
		const uint64_t counter = ((uint64_t)1 << COUNTER_BITS) - 1, next = (tm->match_bits + 1) & counter;
		s->match_bits = (uint64_t)tm->addr.tmid << COUNTER_BITS | (next ? next : 1);
	}
	b->opcode = s->opcode;
	b->cancelled = false;
	b->longest = s->longest;
	b->messages = s->messages;
	b->length = most;
	if (b->copied && (s->opcode == LNETD_SEND || s->opcode == LNETD_PASSIVE_OUT || s->opcode == LNETD_ACTIVE_OUT))
		lni_buf_copy(b, 0, s->length, true);
	result = lni_ring_put(tm, s);
	if (result < 0) {
		atomic_store(&b->tm, NULL);
	} else {
		tm->operations++;
		if (bits)
			*bits = tm->match_bits = s->match_bits;
	}
	pthread_mutex_unlock(&tm->lock);
	return result;
}

// check_length checks the number of bytes to transfer.
static int check_length(const lnetd_buf *b, uint64_t length)
{
	if (length < 1 || length > b->size)
		return lni_fail(EINVAL, "a length of %llu bytes with a buffer of %zu", (unsigned long long)length, b->size);
	return 0;
}

static int check_peer(const struct lnetd_addr *peer)
{
	if (!lni_nid_valid(&peer->nid) || !lni_pid_valid(peer->pid) || peer->portal < 1 || peer->portal > 63 || peer->tmid < 1 ||
	    peer->tmid >= LNETD_ANY_TM)
		return lni_fail(EINVAL, "the address of the peer is invalid");
	return 0;
}

int lnetd_recv(lnetd_tm *tm, lnetd_buf *b, uint32_t longest, uint32_t messages)
{
	int result = check_length(b, longest);
	if (result == 0 && (messages < 1 || messages > INT32_MAX))
		result = lni_fail(EINVAL, "%u messages cannot be received", messages);
	struct wire_submission s = { .opcode = LNETD_RECV, .longest = longest, .messages = messages };
	return result < 0 ? result : begin(tm, b, &s, 0, NULL);
}

int lnetd_send(lnetd_tm *tm, lnetd_buf *b, uint32_t length, const struct lnetd_addr *to)
{
	int result = check_length(b, length);
	if (result == 0)
		result = check_peer(to);
	struct wire_submission s = { .opcode = LNETD_SEND, .length = length, .peer = *to };
	return result < 0 ? result : begin(tm, b, &s, 0, NULL);
}

int lnetd_offer_bits(lnetd_tm *tm, lnetd_buf *b, unsigned direction, uint32_t length, uint64_t *match_bits)
{
	struct wire_submission s = { .opcode = LNETD_PASSIVE_IN };
	int result = direction > LNETD_OUT ? lni_fail(EINVAL, "there is no direction %u", direction) : 0;
	if (result == 0 && direction == LNETD_OUT) {
		result = check_length(b, length);
		s.opcode = LNETD_PASSIVE_OUT;
		s.length = length;
	}
	return result < 0 ? result : begin(tm, b, &s, (uint32_t)b->size, match_bits);
}

int lnetd_offer(lnetd_tm *tm, lnetd_buf *b, unsigned direction, uint32_t length, struct lnetd_desc *desc)
{
	uint64_t bits;
	int result = lnetd_offer_bits(tm, b, direction, length, &bits);
	if (result == 0)
		lni_desc_make(desc, &tm->addr, bits, direction == LNETD_IN ? DESC_IN : DESC_OUT, direction == LNETD_IN ? b->size : length);
	return result;
}

int lnetd_move_bits(lnetd_tm *tm, lnetd_buf *b, unsigned direction, uint32_t length, const struct lnetd_addr *peer, uint64_t match_bits)
{
	int result = direction > LNETD_OUT ? lni_fail(EINVAL, "there is no direction %u", direction) : check_length(b, length);
	if (result == 0)
		result = check_peer(peer);
	struct wire_submission s = {
		.opcode = direction == LNETD_IN ? LNETD_ACTIVE_IN : LNETD_ACTIVE_OUT, .length = length, .match_bits = match_bits, .peer = *peer,
	};
	return result < 0 ? result : begin(tm, b, &s, length, NULL);
}

// The order of the checks is that of TransferMachine.Add: the length, then those of docs/spec/transport.md 6.6.
int lnetd_move(lnetd_tm *tm, lnetd_buf *b, unsigned direction, uint32_t length, const void *desc, size_t size)
{
	struct lni_desc d;
	int result = direction > LNETD_OUT ? lni_fail(EINVAL, "there is no direction %u", direction) : 0;
	if (result == 0 && direction == LNETD_OUT)
		result = check_length(b, length);
	if (result == 0)
		result = lni_desc_read(desc, size, &d);
	if (result < 0)
		return result;
	if (d.type != (direction == LNETD_IN ? DESC_OUT : DESC_IN))
		return lni_fail(EPERM, "the descriptor offers the other direction");
	if (direction == LNETD_IN ? d.size > b->size : length > d.size)
		return lni_fail(EFBIG, "the peer offers %llu bytes", (unsigned long long)d.size);
	result = lni_desc_check(&d);
	if (result < 0)
		return result;
	return lnetd_move_bits(tm, b, direction, direction == LNETD_IN ? (uint32_t)d.size : length, &d.peer, d.match_bits);
}

int lnetd_cancel(lnetd_tm *tm, lnetd_buf *b)
{
	pthread_mutex_lock(&tm->lock);
	int result = lni_tm_ended(tm);
	if (result == 0 && atomic_load(&b->tm) == tm && !b->cancelled) {
		struct wire_submission s = {
			.opcode = SUBMIT_CANCEL, .buffer = b->name.index, .generation = b->name.generation, .operation = b->operation,
		};
		result = lni_ring_put(tm, &s);
		b->cancelled = result == 0;
	}
	pthread_mutex_unlock(&tm->lock);
	return result;
}
