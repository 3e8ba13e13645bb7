// Buffers.
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

lnetd_tm lni_no_tm;

int lni_buf_offer(lnetd *d, lnetd_buf *b)
{
	struct reply reply;
	struct wire_buf_name name;
	uint64_t most = d->hello.range_size, ranges = 0;
	for (unsigned i = 0; i < b->spans_count; i++)
		ranges += (b->spans[i].length + most - 1) / most;
	if (ranges > d->hello.ranges || ranges > MOST_RANGES || b->size > d->hello.buffer_size || b->size > UINT32_MAX)
		return lni_fail(EFBIG, "a buffer of %zu bytes in %llu ranges is larger than %llu bytes in %u ranges", b->size,
				(unsigned long long)ranges, (unsigned long long)d->hello.buffer_size, d->hello.ranges);
	struct wire_buf_register *r = malloc(8 + ranges * sizeof *r->ranges);
	if (!r)
		return lni_fail(ENOMEM, "no memory for a request");
	r->count = r->zero = 0;
	for (unsigned i = 0; i < b->spans_count; i++) {
		const struct span *s = &b->spans[i];
		const struct area *a = s->piece->area;
		for (size_t at = 0; at < s->length; at += r->ranges[r->count++].length) {
			uint64_t n = s->length - at < most ? s->length - at : most;
			r->ranges[r->count] = (struct wire_range){ a->name, (uint32_t)n, (uint64_t)(s->shared - a->start) + at };
		}
	}
	int result = lni_request(d, OP_BUF_REGISTER, r, 8 + r->count * sizeof *r->ranges, -1, sizeof name, &reply);
	free(r);
	if (result < 0)
		return result;
	memcpy(&name, reply.body, sizeof name);
	pthread_rwlock_wrlock(&d->table);
	if (name.index >= d->by_index_size && name.index < MOST_BUFFERS) {
		uint32_t size = d->by_index_size ? d->by_index_size : 64;
		while (size <= name.index)
			size *= 2;
		lnetd_buf **all = realloc(d->by_index, size * sizeof *all);
		if (all) {
			memset(all + d->by_index_size, 0, (size - d->by_index_size) * sizeof *all);
			d->by_index = all;
			d->by_index_size = size;
		}
	}
	bool fits = name.index < d->by_index_size, taken = fits && d->by_index[name.index];
	if (fits && !taken) {
		b->name = name;
		d->by_index[name.index] = b;
	}
	pthread_rwlock_unlock(&d->table);
	if (taken || name.index >= MOST_BUFFERS) {
		lni_break(d, EPROTO, "lnetd has given a buffer an invalid index");
		return lni_ended(d);
	}
	if (!fits) {
		lni_request(d, OP_BUF_DEREGISTER, &name, sizeof name, -1, 0, &reply);
		return lni_fail(ENOMEM, "no memory for the table of buffers");
	}
	return 0;
}

void lni_table_clear(lnetd *d)
{
	pthread_rwlock_wrlock(&d->table);
	for (uint32_t i = 0; i < d->by_index_size; i++)
		d->by_index[i] = NULL;
	pthread_rwlock_unlock(&d->table);
}

void lni_buf_free(lnetd_buf *b)
{
	lnetd *d = b->domain;
	pthread_rwlock_wrlock(&d->table);
	if (b->name.index < d->by_index_size && d->by_index[b->name.index] == b)
		d->by_index[b->name.index] = NULL;
	pthread_rwlock_unlock(&d->table);
	*b->link = b->next;
	if (b->next)
		b->next->link = b->link;
	for (unsigned i = 0; i < b->spans_count; i++)
		b->spans[i].piece->buffers--;
	free(b->spans);
	free(b);
}

// new_buf creates a buffer that is in the domain's list, but not in its table.
static int new_buf(lnetd *d, const struct iovec *ranges, int n, void *data, lnetd_buf **out)
{
	lnetd_buf *b = calloc(1, sizeof *b);
	struct span *spans = calloc((size_t)n, sizeof *spans);
	if (!b || !spans) {
		free(b);
		free(spans);
		return lni_fail(ENOMEM, "no memory for a buffer");
	}
	*b = (lnetd_buf){ .domain = d, .data = data, .spans = spans, .name = { UINT32_MAX, 0 } };
	atomic_init(&b->tm, NULL);
	for (int i = 0; i < n; i++) {
		uint8_t *memory = ranges[i].iov_base;
		size_t size = ranges[i].iov_len;
		struct piece *p = size ? lni_piece_find(d, memory, size) : NULL;
		if (!p || b->size + size < size) {
			free(b);
			free(spans);
			return lni_fail(EINVAL, "range %d, %zu bytes at %p, is not in memory of lnetd_alloc or lnetd_adopt", i, size, (void *)memory);
		}
		spans[i] = (struct span){ p, memory, p->area->start + p->offset + (memory - p->user), size };
		b->size += size;
		b->copied |= p->kind == COPIED;
	}
	b->spans_count = (unsigned)n;
	for (unsigned i = 0; i < b->spans_count; i++)
		b->spans[i].piece->buffers++;
	b->next = d->bufs;
	if (b->next)
		b->next->link = &b->next;
	b->link = &d->bufs;
	d->bufs = b;
	*out = b;
	return 0;
}

int lnetd_register(lnetd *d, const struct iovec *ranges, int n, void *data, lnetd_buf **buffer)
{
	lnetd_buf *b = NULL;
	if (n < 1)
		return lni_fail(EINVAL, "a buffer of %d ranges", n);
	int result = lni_lock(d);
	if (result < 0)
		return result;
	result = new_buf(d, ranges, n, data, &b);
	if (result == 0 && (result = lni_buf_offer(d, b)) < 0)
		lni_buf_free(b);
	if (result == 0)
		*buffer = b;
	pthread_mutex_unlock(&d->request);
	return result;
}

int lnetd_deregister(lnetd_buf *b)
{
	lnetd *d = b->domain;
	lnetd_tm *none = NULL;
	struct reply reply;
	int result = 0;
	pthread_mutex_lock(&d->request);
	if (!atomic_compare_exchange_strong(&b->tm, &none, &lni_no_tm)) {
		result = lni_fail(EBUSY, "the buffer has an operation");
	} else {
		if (!atomic_load(&d->error))
			result = lni_request(d, OP_BUF_DEREGISTER, &b->name, sizeof b->name, -1, 0, &reply);
		if (atomic_load(&d->error)) // lnetd has no buffers any more
			result = 0;
		if (result == 0)
			lni_buf_free(b);
		else
			atomic_store(&b->tm, NULL);
	}
	pthread_mutex_unlock(&d->request);
	return result;
}

size_t lnetd_buf_size(const lnetd_buf *b) { return b->size; }

void *lnetd_buf_data(const lnetd_buf *b) { return b->data; }

void *lnetd_at(const lnetd_buf *b, size_t offset, size_t *contiguous)
{
	for (unsigned i = 0; i < b->spans_count; i++) {
		const struct span *s = &b->spans[i];
		if (offset < s->length) {
			if (contiguous)
				*contiguous = s->length - offset;
			return s->user + offset;
		}
		offset -= s->length;
	}
	if (contiguous)
		*contiguous = 0;
	return NULL;
}

void lni_buf_copy(lnetd_buf *b, size_t offset, size_t length, bool out)
{
	for (unsigned i = 0; b->copied && i < b->spans_count && length; i++) {
		const struct span *s = &b->spans[i];
		if (offset >= s->length) {
			offset -= s->length;
			continue;
		}
		size_t n = s->length - offset < length ? s->length - offset : length;
		if (s->piece->kind == COPIED && out)
			memcpy(s->shared + offset, s->user + offset, n);
		else if (s->piece->kind == COPIED)
			memcpy(s->user + offset, s->shared + offset, n);
		length -= n;
		offset = 0;
	}
}
