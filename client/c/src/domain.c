// The connection: opening, its end, and opening again.
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

enum { SPIN = 50000, LONGEST_SPIN = 1000000000 }; // ns

#define REQUIRED (FEATURE_OVERFLOW | FEATURE_POSTED | FEATURE_MATCH_BITS)

void lni_end(lnetd *d, int error, const char *format, ...)
{
	va_list a;
	va_start(a, format);
	pthread_mutex_lock(&d->state);
	if (!atomic_load(&d->error)) {
		vsnprintf(d->reason, sizeof d->reason, format, a);
		atomic_store(&d->error, error);
	}
	pthread_mutex_unlock(&d->state);
	va_end(a);
}

void lni_break(lnetd *d, int error, const char *text)
{
	lni_end(d, error, "%s", text);
	atomic_store(&d->over, true);
	shutdown(d->socket, SHUT_RDWR); // and wakes threads in lnetd_wait that sleep at the descriptors
}

int lni_ended(lnetd *d)
{
	int error = atomic_load(&d->error);
	if (!error)
		return 0;
	pthread_mutex_lock(&d->state);
	lni_fail(error, "%s", d->reason);
	pthread_mutex_unlock(&d->state);
	return -error;
}

int lni_lock(lnetd *d)
{
	pthread_mutex_lock(&d->request);
	int result = lni_ended(d);
	if (result < 0)
		pthread_mutex_unlock(&d->request);
	return result;
}

// find_socket writes the default path of lnetd's socket.
static void find_socket(char *path, size_t size)
{
	static const char system[] = "/run/lnetd/lnetd.sock";
	const char *run = getenv("XDG_RUNTIME_DIR"), *tmp = getenv("TMPDIR");
	struct stat st;
	int n;
	if (run && *run == '/')
		n = snprintf(path, size, "%s/lnetd/lnetd.sock", run);
	else
		n = snprintf(path, size, "%s/lnetd-%u/lnetd.sock", tmp && *tmp ? tmp : "/tmp", (unsigned)geteuid());
	if (geteuid() == 0 || n < 0 || (size_t)n >= size || (lstat(path, &st) < 0 && errno == ENOENT && lstat(system, &st) == 0))
		snprintf(path, size, "%s", system);
}

// join connects and sends HELLO. d->request is held.
static int join(lnetd *d)
{
	struct reply reply;
	struct wire_hello h = { .lowest = 1, .highest = 1, .required = REQUIRED };
	struct wire_hello_reply r;
	int fd = lni_connect(d->path, atomic_load(&d->patience));
	if (fd < 0)
		return fd;
	h.wanted = REQUIRED | FEATURE_FUTEX | (d->flags & LNETD_POLLING ? FEATURE_POLLING : 0);
	memcpy(h.program, d->program, sizeof h.program);
	d->socket = fd;
	d->sequence = d->nop_sequence = 0;
	atomic_store(&d->asked, 0);
	atomic_store(&d->ending, 0);
	atomic_store(&d->over, false);
	atomic_store(&d->error, 0);
	int result = lni_request(d, OP_HELLO, &h, sizeof h, -1, sizeof r, &reply);
	if (result < 0)
		return result;
	memcpy(&r, reply.body, sizeof r);
	if (r.version != 1 || r.zero1 || r.zero2 || (r.features & ~(h.wanted | h.required)) || (r.features & h.required) != h.required ||
	    r.descriptor_size < 48 || r.descriptor_size > 64 || r.buffer_size == 0 || r.range_size == 0 || r.ranges == 0) {
		lni_break(d, EPROTO, "the reply of lnetd to HELLO is invalid");
		return lni_ended(d);
	}
	if (r.range_size > UINT32_MAX) // the length of a range has 32 bits
		r.range_size = UINT32_MAX;
	d->hello = r;
	if (atomic_load(&d->descriptor_size) < r.descriptor_size)
		atomic_store(&d->descriptor_size, r.descriptor_size);
	return 0;
}

static bool printable(char c) { return c >= ' ' && c <= '~'; }

static bool valid_name(const char *program)
{
	size_t n = 0;
	while (n < NAME_SIZE && printable(program[n]))
		n++;
	return n < NAME_SIZE && program[n] == 0;
}

// name_program sets the name for displays. That of the executable is shortened, and may have any characters.
static void name_program(char name[NAME_SIZE], const char *program)
{
	snprintf(name, NAME_SIZE, "%.*s", NAME_SIZE - 1, program ? program : program_invocation_short_name);
	for (char *c = name; *c; c++)
		*c = printable(*c) ? *c : '?';
}

int lnetd_open(lnetd **out, const char *path, const char *program, unsigned flags)
{
	*out = NULL;
	if (flags & ~LNETD_POLLING)
		return lni_fail(EINVAL, "lnetd_open has no such flags: %#x", flags);
	if (path && strlen(path) >= sizeof ((lnetd *)0)->path)
		return lni_fail(EINVAL, "the path of the socket has more than %zu bytes: %.200s", sizeof ((lnetd *)0)->path - 1, path);
	if (program && !valid_name(program))
		return lni_fail(EINVAL, "the name of a program has at most %d printable characters of ASCII, unlike %.200s", NAME_SIZE - 1, program);
	lnetd *d = calloc(1, sizeof *d);
	if (!d)
		return lni_fail(ENOMEM, "no memory for a connection");
	d->pid = getpid();
	d->flags = flags;
	d->socket = -1;
	atomic_store(&d->patience, 10000);
	atomic_store(&d->spin, SPIN);
	pthread_mutex_init(&d->request, NULL);
	pthread_mutex_init(&d->state, NULL);
	pthread_rwlock_init(&d->table, NULL);
	if (path)
		snprintf(d->path, sizeof d->path, "%s", path);
	else
		find_socket(d->path, sizeof d->path);
	name_program(d->program, program);
	pthread_mutex_lock(&d->request);
	int result = join(d);
	pthread_mutex_unlock(&d->request);
	if (result < 0) {
		lnetd_close(d);
		return result;
	}
	*out = d;
	return 0;
}

// close_in_child closes the descriptors of a child made by fork. Nothing else can be used there: another thread of the
// parent may have held a lock, or have changed a list, at that moment.
static void close_in_child(const lnetd *d)
{
	if (d->socket >= 0)
		close(d->socket);
	for (const lnetd_tm *tm = d->tms; tm; tm = tm->next) {
		if (tm->ring.file) {
			close(tm->ring.wake_lnetd);
			close(tm->ring.woken);
		}
	}
	for (const struct area *a = d->areas; a; a = a->next)
		if (a->fd >= 0)
			close(a->fd);
}

void lnetd_close(lnetd *d)
{
	if (d && d->pid != getpid())
		close_in_child(d);
	if (!d || d->pid != getpid())
		return;
	if (d->socket >= 0) {
		shutdown(d->socket, SHUT_RDWR);
		close(d->socket);
	}
	while (d->tms)
		lni_tm_free(d->tms);
	while (d->bufs)
		lni_buf_free(d->bufs);
	lni_areas_free(d);
	free(d->by_index);
	pthread_rwlock_destroy(&d->table);
	pthread_mutex_destroy(&d->state);
	pthread_mutex_destroy(&d->request);
	free(d);
}

int lnetd_fd(const lnetd *d) { return d->socket; }

int lnetd_process(lnetd *d)
{
	lni_try_hear(d); // otherwise a thread that makes a request reads
	int result = lni_ended(d);
	int64_t ending = atomic_load(&d->ending);
	if (result < 0 || ending == 0)
		return result;
	int64_t left = (ending - lni_now() + 999999999) / 1000000000;
	return left < 1 ? 1 : (int)left;
}

// restore registers everything with a new lnetd.
static int restore(lnetd *d)
{
	int result = join(d);
	for (struct area *a = d->areas; a && result == 0; a = a->next)
		result = lni_area_offer(d, a);
	for (lnetd_buf *b = d->bufs; b && result == 0; b = b->next)
		result = lni_buf_offer(d, b);
	for (lnetd_tm *tm = d->tms; tm && result == 0; tm = tm->next)
		result = lni_tm_offer(d, tm);
	return result;
}

int lnetd_reopen(lnetd *d)
{
	pthread_mutex_lock(&d->request);
	lni_hear(d);
	int result = atomic_load(&d->error) ? 0 : lni_fail(EBUSY, "the connection to lnetd works");
	for (lnetd_tm *tm = d->tms; tm && result == 0; tm = tm->next)
		if (!atomic_load(&tm->down))
			result = lni_fail(EBUSY, "not all events of a TM have been taken");
	if (result == 0) {
		if (d->socket >= 0)
			close(d->socket);
		d->socket = -1;
		for (lnetd_tm *tm = d->tms; tm; tm = tm->next)
			lni_ring_unmap(&tm->ring);
		lni_table_clear(d);
		result = restore(d);
		if (result < 0) { // the connection has ended, or is ended here
			char text[REASON_SIZE];
			snprintf(text, sizeof text, "%.*s", (int)sizeof text - 1, lnetd_text());
			lni_break(d, -result, text);
			lni_fail(result, "%s", text);
		} else {
			for (lnetd_tm *tm = d->tms; tm; tm = tm->next) {
				atomic_store(&tm->over, false);
				atomic_store(&tm->ending_told, false);
				atomic_store(&tm->down, false);
			}
		}
	}
	pthread_mutex_unlock(&d->request);
	return result;
}

int lnetd_ping(lnetd *d)
{
	struct reply reply;
	int result = lni_lock(d);
	if (result < 0)
		return result;
	result = lni_request(d, OP_NOP, NULL, 0, -1, 0, &reply);
	pthread_mutex_unlock(&d->request);
	return result;
}

int lnetd_set_patience(lnetd *d, int milliseconds)
{
	if (milliseconds < 1)
		return lni_fail(EINVAL, "a patience of %d ms is too short", milliseconds);
	atomic_store(&d->patience, milliseconds);
	return 0;
}

int lnetd_set_spin(lnetd *d, unsigned microseconds)
{
	if (microseconds > LONGEST_SPIN / 1000)
		return lni_fail(EINVAL, "a spin of %u microseconds is too long", microseconds);
	atomic_store(&d->spin, microseconds * 1000);
	return 0;
}

int lnetd_limits(lnetd *d, struct lnetd_limits *limits)
{
	size_t size = limits->size;
	if (size < sizeof size)
		return lni_fail(EINVAL, "the size in struct lnetd_limits is not set");
	pthread_mutex_lock(&d->request);
	const struct wire_hello_reply *r = &d->hello;
	struct lnetd_limits l = {
		.size = size, .buffer_size = r->buffer_size, .memory = r->memory, .incarnation = r->incarnation, .connection = r->connection,
		.tms = r->tms, .buffers = r->buffers, .areas = r->areas, .completions = r->completions,
		.range_size = (uint32_t)r->range_size, .ranges = r->ranges,
		.descriptor_size = atomic_load(&d->descriptor_size), .polling = r->features & FEATURE_POLLING ? 1 : 0,
	};
	pthread_mutex_unlock(&d->request);
	memcpy(limits, &l, size < sizeof l ? size : sizeof l);
	return 0;
}

int lnetd_nids(lnetd *d, struct lnetd_nid *nids, int most)
{
	struct reply reply;
	uint32_t count = 0;
	int result = lni_lock(d);
	if (result < 0)
		return result;
	result = lni_request(d, OP_NIDS_GET, NULL, 0, -1, ANY_SIZE, &reply);
	if (result == 0) {
		if (reply.length >= sizeof count)
			memcpy(&count, reply.body, sizeof count);
		if (count > MOST_NIDS || reply.length != sizeof count + count * sizeof *nids) {
			lni_break(d, EPROTO, "the reply of lnetd with its NIDs is invalid");
			result = lni_ended(d);
		} else {
			for (uint32_t i = 0; i < count && (int64_t)i < most; i++)
				memcpy(&nids[i], reply.body + sizeof count + i * sizeof *nids, sizeof *nids);
			result = (int)count;
		}
	}
	pthread_mutex_unlock(&d->request);
	return result;
}
