// Memory that lnetd and the program share: areas, which are memfds, and their pieces.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "internal.h"

enum { LEAST_AREA = 1 << 20, MOST_GROWTH = 64 << 20, LINE = 64 };

static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

int lni_area_offer(lnetd *d, struct area *a)
{
	struct wire_area_add r = { .size = a->size };
	struct reply reply;
	int result = lni_request(d, OP_AREA_ADD, &r, sizeof r, a->fd, sizeof a->name, &reply);
	if (result == 0)
		memcpy(&a->name, reply.body, sizeof a->name);
	return result;
}

// area_free frees an area without telling lnetd.
static void area_free(lnetd *d, struct area *a)
{
	for (struct area **link = &d->areas; *link; link = &(*link)->next) {
		if (*link == a) {
			*link = a->next;
			break;
		}
	}
	if (a->start)
		munmap(a->start, a->size);
	if (a->fd >= 0)
		close(a->fd);
	free(a);
}

// area_delete deletes an area at lnetd, and frees it.
static void area_delete(lnetd *d, struct area *a)
{
	struct reply reply;
	if (!atomic_load(&d->error) && lni_request(d, OP_AREA_DEL, &a->name, sizeof a->name, -1, 0, &reply) < 0 && !atomic_load(&d->error))
		return; // lnetd still uses it; it is kept for later pieces
	area_free(d, a);
}

// allocate allocates all pages of a memfd. It does so in steps, because in most kernels a signal undoes a whole step: a
// program with a timer would never finish a long one.
static int allocate(int fd, size_t size)
{
	int e = 0;
	for (size_t at = 0; at < size && (e == 0 || e == EINTR); at += e ? 0 : LEAST_AREA)
		e = posix_fallocate(fd, (off_t)at, (off_t)(size - at < LEAST_AREA ? size - at : LEAST_AREA));
	return e;
}

// map creates a memfd, and maps it. Its pages are not allocated yet.
static int map(struct area *a)
{
	a->fd = memfd_create("liblnetd", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (a->fd < 0)
		return lni_fail(errno, "memfd_create: %s", strerror(errno));
	if (ftruncate(a->fd, (off_t)a->size) < 0)
		return lni_fail(errno, "resize shared memory to %zu bytes: %s", a->size, strerror(errno));
	if (fcntl(a->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return lni_fail(errno, "seal shared memory: %s", strerror(errno));
	void *start = mmap(NULL, a->size, PROT_READ | PROT_WRITE, MAP_SHARED, a->fd, 0);
	if (start == MAP_FAILED)
		return lni_fail(errno, "map %zu bytes of shared memory: %s", a->size, strerror(errno));
	a->start = start;
	if (madvise(start, a->size, MADV_DONTFORK) < 0)
		return lni_fail(errno, "madvise: %s", strerror(errno));
	return 0;
}

static int area_create(lnetd *d, size_t size, struct area **out)
{
	struct area *a = calloc(1, sizeof *a);
	if (!a)
		return lni_fail(ENOMEM, "no memory for an area");
	a->size = size;
	a->fd = -1;
	a->next = d->areas;
	d->areas = a;
	int result = map(a), e;
	if (result == 0)
		result = lni_area_offer(d, a); // first, because lnetd may refuse it
	if (result < 0) {
		area_free(d, a);
		return result;
	}
	if ((e = allocate(a->fd, a->size)) != 0) {
		struct reply reply;
		if (!atomic_load(&d->error))
			lni_request(d, OP_AREA_DEL, &a->name, sizeof a->name, -1, 0, &reply);
		area_free(d, a); // even if lnetd keeps it: without pages it is of no use
		return lni_fail(e == ENOSPC ? ENOMEM : e, "allocate %zu bytes of shared memory: %s", a->size, strerror(e));
	}
	*out = a;
	return 0;
}

// find_gap returns the place in the list of pieces before which size bytes are free from *offset on, or NULL.
static struct piece **find_gap(struct area *a, size_t size, size_t alignment, size_t *offset)
{
	struct piece **link = &a->pieces;
	size_t at = 0;
	for (;; link = &(*link)->next) {
		size_t end = *link ? (*link)->offset : a->size;
		if (at <= end && size <= end - at) {
			*offset = at;
			return link;
		}
		if (!*link)
			return NULL;
		at = round_up((*link)->offset + (*link)->used, alignment);
	}
}

// place returns the index of the first piece that begins above memory.
static size_t place(lnetd *d, const uint8_t *memory)
{
	size_t from = 0, to = d->pieces_count;
	while (from < to) {
		size_t i = from + (to - from) / 2;
		if ((uintptr_t)d->pieces[i]->user > (uintptr_t)memory)
			to = i;
		else
			from = i + 1;
	}
	return from;
}

struct piece *lni_piece_find(lnetd *d, const void *memory, size_t size)
{
	size_t i = place(d, memory);
	if (i == 0)
		return NULL;
	struct piece *p = d->pieces[i - 1];
	size_t at = (uintptr_t)memory - (uintptr_t)p->user;
	return at < p->size && size <= p->size - at ? p : NULL;
}

bool lni_overlaps(lnetd *d, const void *memory, size_t size)
{
	size_t i = place(d, memory);
	if (i < d->pieces_count && (uintptr_t)d->pieces[i]->user - (uintptr_t)memory < size)
		return true;
	for (struct area *a = d->areas; a; a = a->next)
		if ((uintptr_t)memory < (uintptr_t)a->start + a->size && (uintptr_t)a->start < (uintptr_t)memory + size)
			return true;
	return i > 0 && (uintptr_t)memory - (uintptr_t)d->pieces[i - 1]->user < d->pieces[i - 1]->size;
}

// piece_index adds a piece to the index by address.
static int piece_index(lnetd *d, struct piece *p)
{
	if (d->pieces_count == d->pieces_room) {
		size_t room = d->pieces_room ? 2 * d->pieces_room : 64;
		struct piece **all = realloc(d->pieces, room * sizeof *all);
		if (!all)
			return lni_fail(ENOMEM, "no memory for the index of pieces");
		d->pieces = all;
		d->pieces_room = room;
	}
	size_t i = place(d, p->user);
	memmove(&d->pieces[i + 1], &d->pieces[i], (d->pieces_count++ - i) * sizeof *d->pieces);
	d->pieces[i] = p;
	return 0;
}

// grow creates an area in which size bytes fit: a quarter of what there is, unless a quota does not permit that.
static int grow(lnetd *d, size_t size, struct area **out)
{
	size_t total = 0, large;
	for (struct area *a = d->areas; a; a = a->next)
		total += a->size;
	large = round_up(total / 4 < MOST_GROWTH ? total / 4 : MOST_GROWTH, LEAST_AREA);
	if (large < LEAST_AREA)
		large = LEAST_AREA;
	if (large > size) {
		int result = area_create(d, large, out);
		if (result == 0 || atomic_load(&d->error))
			return result;
	}
	return area_create(d, round_up(size, PAGE), out);
}

int lni_piece_create(lnetd *d, size_t size, struct piece **out)
{
	size_t alignment = size < PAGE ? LINE : PAGE, offset = 0;
	if (size == 0 || size > SIZE_MAX / 2)
		return lni_fail(EINVAL, "%zu bytes of memory are not possible", size);
	size_t used = round_up(size, alignment);
	struct piece **link = NULL, *p = calloc(1, sizeof *p);
	if (!p)
		return lni_fail(ENOMEM, "no memory for a piece");
	struct area *a = d->areas;
	while (a && !(link = find_gap(a, used, alignment, &offset)))
		a = a->next;
	if (!a) {
		int result = grow(d, used, &a);
		if (result < 0) {
			free(p);
			return result;
		}
		link = find_gap(a, used, alignment, &offset);
	}
	*p = (struct piece){ .next = *link, .area = a, .user = a->start + offset, .offset = offset, .size = size, .used = used };
	*link = p;
	*out = p;
	return 0;
}

void lni_piece_remove(lnetd *d, struct piece *p)
{
	struct area *a = p->area, *other;
	for (struct piece **link = &a->pieces; *link; link = &(*link)->next) {
		if (*link == p) {
			*link = p->next;
			break;
		}
	}
	size_t i = place(d, p->user);
	if (i > 0 && d->pieces[i - 1] == p) // otherwise it is not in the index yet
		memmove(&d->pieces[i - 1], &d->pieces[i], (d->pieces_count-- - i) * sizeof *d->pieces);
	free(p);
	if (a->pieces)
		return;
	for (other = d->areas; other && (other == a || other->pieces); other = other->next)
		;
	if (other || a->size > LEAST_AREA) // one small empty area is kept
		area_delete(d, a);
}

void lni_areas_free(lnetd *d)
{
	while (d->areas) {
		struct area *a = d->areas;
		while (a->pieces) {
			struct piece *p = a->pieces;
			a->pieces = p->next;
			lni_give_back(p);
			free(p);
		}
		area_free(d, a);
	}
	free(d->pieces);
}

int lnetd_alloc(lnetd *d, size_t size, void **memory)
{
	struct piece *p;
	int result = lni_lock(d);
	if (result < 0)
		return result;
	result = lni_piece_create(d, size, &p);
	if (result == 0 && (result = piece_index(d, p)) < 0)
		lni_piece_remove(d, p);
	if (result == 0) {
		memset(p->user, 0, p->used);
		*memory = p->user;
	}
	pthread_mutex_unlock(&d->request);
	return result;
}

int lnetd_adopt(lnetd *d, void *memory, size_t size, unsigned flags)
{
	struct piece *p;
	if (flags & ~LNETD_COPY)
		return lni_fail(EINVAL, "lnetd_adopt has no such flags: %#x", flags);
	int result = lni_lock(d);
	if (result < 0)
		return result;
	if (size == 0 || size > UINTPTR_MAX - (uintptr_t)memory || lni_overlaps(d, memory, size))
		result = lni_fail(EINVAL, "%zu bytes at %p are empty or overlap memory of lnetd_alloc or lnetd_adopt", size, memory);
	else
		result = lni_piece_create(d, size, &p);
	if (result == 0) {
		p->user = memory;
		result = piece_index(d, p);
		if (result == 0 && (result = flags & LNETD_COPY ? (p->kind = COPIED, 0) : lni_replace(p)) == 0) {
			pthread_mutex_unlock(&d->request);
			return 0;
		}
		lni_piece_remove(d, p);
	}
	pthread_mutex_unlock(&d->request);
	return result;
}

int lnetd_free(lnetd *d, void *memory)
{
	pthread_mutex_lock(&d->request);
	struct piece *p = lni_piece_find(d, memory, 1);
	int result = 0;
	if (!p || p->user != memory)
		result = lni_fail(EINVAL, "%p is not memory of lnetd_alloc or lnetd_adopt", memory);
	else if (p->buffers)
		result = lni_fail(EBUSY, "a buffer uses the memory at %p", memory);
	else
		result = lni_give_back(p);
	if (result == 0)
		lni_piece_remove(d, p);
	pthread_mutex_unlock(&d->request);
	return result;
}
