// The ring file of a TM: mapping, submissions, and the words that both sides share.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

// usable reports whether the descriptors are of the right types. A file that can shrink, a blocking write or a pipe
// could end this process or stop it.
static bool usable(const int fds[MOST_FDS])
{
	struct stat bell, socket;
	int seals = fcntl(fds[0], F_GET_SEALS), flags = fcntl(fds[1], F_GETFL);
	return seals >= 0 && (seals & F_SEAL_SHRINK) && flags >= 0 && (flags & O_NONBLOCK) && fstat(fds[1], &bell) == 0 &&
	       !S_ISFIFO(bell.st_mode) && !S_ISSOCK(bell.st_mode) && fstat(fds[2], &socket) == 0 && S_ISSOCK(socket.st_mode);
}

static bool valid(const struct wire_ring *h, uint32_t completions, uint32_t submissions, size_t size)
{
	uint64_t cq = PAGE + (uint64_t)submissions * sizeof(struct wire_submission);
	cq = (cq + PAGE - 1) / PAGE * PAGE;
	return h->magic == RING_MAGIC && h->version == 1 && h->header_size == PAGE && h->sq_offset == PAGE && h->sq_entries == submissions &&
	       h->cq_offset == cq && h->cq_entries == completions && h->submission_size == sizeof(struct wire_submission) &&
	       h->completion_size == sizeof(struct wire_completion) && size >= cq + (uint64_t)completions * sizeof(struct wire_completion);
}

static _Atomic uint32_t *word(struct ring *r, size_t offset) { return (void *)(r->file + offset); }

int lni_ring_map(struct ring *r, const int fds[MOST_FDS], uint32_t completions, uint32_t submissions)
{
	struct stat st;
	struct wire_ring h;
	*r = (struct ring){ .wake_lnetd = -1, .woken = -1 };
	if (!usable(fds) || fstat(fds[0], &st) < 0 || st.st_size < PAGE)
		return lni_fail(EPROTO, "lnetd has sent descriptors of wrong types for a ring");
	void *file = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
	if (file == MAP_FAILED)
		return lni_fail(errno, "map a ring of %lld bytes: %s", (long long)st.st_size, strerror(errno));
	madvise(file, (size_t)st.st_size, MADV_DONTFORK); // lnetd_close in a child does not unmap it
	memcpy(&h, file, sizeof h);
	if (!valid(&h, completions, submissions, (size_t)st.st_size)) {
		munmap(file, (size_t)st.st_size);
		return lni_fail(EPROTO, "the ring file of lnetd is invalid");
	}
	close(fds[0]);
	r->file = file;
	r->size = (size_t)st.st_size;
	r->wake_lnetd = fds[1];
	r->woken = fds[2];
	r->sq_entries = submissions;
	r->cq_entries = completions;
	r->sq = (void *)(r->file + h.sq_offset);
	r->cq = (const void *)(r->file + h.cq_offset);
	r->sq_tail = word(r, WORD_SQ_TAIL);
	r->sq_head = word(r, WORD_SQ_HEAD);
	r->cq_tail = word(r, WORD_CQ_TAIL);
	r->cq_head = word(r, WORD_CQ_HEAD);
	r->sq_sleeping = word(r, WORD_SQ_SLEEPING);
	r->cq_sleeping = word(r, WORD_CQ_SLEEPING);
	r->sq_posted = word(r, WORD_SQ_POSTED);
	r->sq_waiting = word(r, WORD_SQ_WAITING);
	r->cq_overflow = word(r, WORD_CQ_OVERFLOW);
	return 0;
}

void lni_ring_unmap(struct ring *r)
{
	if (r->wake_lnetd >= 0)
		close(r->wake_lnetd);
	if (r->woken >= 0)
		close(r->woken);
	if (r->file)
		munmap(r->file, r->size);
	*r = (struct ring){ .wake_lnetd = -1, .woken = -1 };
}

// wake wakes lnetd, which sleeps in this way.
static void wake(struct ring *r, uint32_t how)
{
	const uint64_t one = 1;
	if (how == ON_WORD)
		lni_wake(r->sq_sleeping);
	else // EAGAIN means that there are enough tokens
		while (write(r->wake_lnetd, &one, sizeof one) < 0 && errno == EINTR)
			;
}

// show shows lnetd all submissions, and wakes it if it sleeps, unless it knows them all. tm->lock is held.
static void show(lnetd_tm *tm)
{
	struct ring *r = &tm->ring;
	uint32_t tail = atomic_load_explicit(&tm->tail, memory_order_relaxed), how;
	if (tail == atomic_load_explicit(&tm->shown, memory_order_relaxed))
		return;
	atomic_store_explicit(&tm->shown, tail, memory_order_relaxed);
	atomic_store(r->sq_tail, tail);
	if (atomic_load(r->sq_sleeping) && (how = atomic_exchange(r->sq_sleeping, AWAKE)) != AWAKE)
		wake(r, how);
}

void lni_show(lnetd_tm *tm)
{
	if (atomic_load_explicit(&tm->tail, memory_order_relaxed) == atomic_load_explicit(&tm->shown, memory_order_relaxed))
		return;
	pthread_mutex_lock(&tm->lock);
	show(tm);
	pthread_mutex_unlock(&tm->lock);
}

int lni_ring_put(lnetd_tm *tm, const struct wire_submission *s)
{
	struct ring *r = &tm->ring;
	uint32_t tail = atomic_load_explicit(&tm->tail, memory_order_relaxed);
	uint32_t head = atomic_load_explicit(r->sq_head, memory_order_acquire);
	if (tail - head > r->sq_entries || atomic_load_explicit(&tm->shown, memory_order_relaxed) - head > r->sq_entries) {
		lni_break(tm->domain, EPROTO, "lnetd has set an invalid head of submissions");
		return lni_ended(tm->domain);
	}
	if (tail - head == r->sq_entries) {
		show(tm); // a batch, which would otherwise keep the ring full
		return lni_fail(EAGAIN, "the submission ring is full");
	}
	memcpy(&r->sq[tail & (r->sq_entries - 1)], s, sizeof *s);
	atomic_store_explicit(&tm->tail, tail + 1, memory_order_release);
	if (tm->batches == 0)
		show(tm);
	return 0;
}

int lnetd_begin(lnetd_tm *tm)
{
	pthread_mutex_lock(&tm->lock);
	int result = lni_tm_ended(tm);
	if (result == 0)
		tm->batches++;
	pthread_mutex_unlock(&tm->lock);
	return result;
}

int lnetd_commit(lnetd_tm *tm)
{
	pthread_mutex_lock(&tm->lock);
	int result = tm->batches ? lni_tm_ended(tm) : lni_fail(EINVAL, "no batch of submissions was begun");
	if (tm->batches)
		tm->batches--;
	if (result == 0)
		show(tm);
	pthread_mutex_unlock(&tm->lock);
	return result;
}

void lni_ring_release(lnetd_tm *tm, uint32_t head)
{
	struct ring *r = &tm->ring;
	atomic_store_explicit(&tm->head, head, memory_order_release);
	atomic_store(r->cq_head, head);
	if (atomic_load(r->cq_overflow) && atomic_exchange(r->cq_overflow, 0))
		wake(r, atomic_exchange(r->sq_sleeping, AWAKE)); // also if it is awake
}
