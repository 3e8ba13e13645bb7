//go:build ignore
// (so that Go leaves this file alone)

// A client of lnetd that speaks docs/transport-protocol.md. It starts a transfer machine,
// exchanges messages and bulk with a peer (cclient_test.go has it), and gives all back.
//
//	cc -std=c11 -Wall -Wextra -Werror -O2 -o client client.c
//	client SOCKET PEER        such as /run/lnetd/lnetd.sock 10.0.0.1@tcp:12345:34:7
//	client -x SOCKET PEER     sends one message, and shows every byte of the session
//
// The structures are the tables of that page: on a little-endian machine they have neither
// padding nor other numbers. It exits with 0 if all was as it should be.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the structures are as on the wire");
_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "what two processes share cannot have locks");

enum { HELLO = 1, NIDS_GET, AREA_ADD, AREA_DEL, BUF_REGISTER, BUF_DEREGISTER, TM_START, TM_STOP, STATS_GET, NOP, NOTICE = 64 };
enum { MSG_RECV = 1, MSG_SEND, PASSIVE_RECV, PASSIVE_SEND, ACTIVE_RECV, ACTIVE_SEND, CANCEL };
enum { POSTED = 1 << 5 }; // a feature
enum { FINAL = 1, REJECTED = 2, ABOUT_TM = 4 };
enum { MAGIC = 0x444e544c, RING_MAGIC = 0x474e4952, DESCRIPTOR_MAGIC = 0x444d544c, MAX_RECORD = 16384, DYNAMIC = 4096, PID = 12345, NO_HANDLE = -1 };

struct header { uint32_t magic; uint16_t version, opcode; uint32_t length, sequence; int32_t status; uint32_t flags; };
struct hello { uint16_t lowest, highest; uint32_t zero; uint64_t wanted, required; char program[32]; };
struct hello_reply {
	uint16_t version, zero1; uint32_t zero2; uint64_t features;
	uint64_t buffer_size, segment_size; uint32_t segments, descriptor_size;
	uint32_t tms, buffers, areas, ring_entries; uint64_t bytes, incarnation, now, connection;
};
struct nid { uint8_t b[20]; };
struct nids { uint32_t count; struct nid nid[817]; };
struct area_add { uint64_t size; uint32_t flags, zero; };
struct range { uint32_t area, length; uint64_t offset; };
struct buf_register { uint32_t count, zero; struct range range[256]; };
struct buf_name { uint32_t index, generation; };
struct tm_start { struct nid nid; uint32_t pid, portal, tmid, entries, flags; };
struct tm_start_reply { uint32_t handle, tmid, completions, submissions, credits; };
struct counters { uint32_t count, zero; uint64_t counter[256]; };
struct notice { uint32_t kind; int32_t value; char text[1024]; };
struct ring_header {
	uint32_t magic; uint16_t version, header_size; uint32_t sq_offset, sq_entries, cq_offset, cq_entries; uint16_t sqe_size, cqe_size;
};
struct submission {
	uint8_t opcode, flags; uint16_t zero1; uint32_t buffer, generation, operation; uint64_t match_bits;
	uint32_t length, min_receive, max_messages, zero2; struct nid peer; uint32_t pid, portal, tmid; uint8_t zero3[56];
};
struct completion {
	uint32_t buffer, generation, operation; int32_t status; uint32_t length, offset; uint64_t time;
	struct nid sender; uint32_t pid; uint16_t portal, tmid; uint8_t flags, zero[3];
};
// What tells a peer of a passive buffer, of a TM whose address has 4 bytes, or 16; lnetd does not
// look at it (spec/transport.md 6.6).
struct descriptor { uint64_t match_bits, nid; uint32_t pid, portal, tmid, type; uint64_t size, checksum; };
struct large_descriptor { uint32_t magic, version; uint64_t match_bits; struct nid nid; uint32_t pid, portal, type; uint64_t size, checksum; };

_Static_assert(sizeof(struct header) == 24 && sizeof(struct hello) == 56 && sizeof(struct hello_reply) == 88, "records");
_Static_assert(sizeof(struct tm_start) == 40 && sizeof(struct tm_start_reply) == 20 && sizeof(struct range) == 16 && sizeof(struct ring_header) == 28, "records");
_Static_assert(sizeof(struct submission) == 128 && sizeof(struct completion) == 64 && sizeof(struct descriptor) == 48 && sizeof(struct large_descriptor) == 64, "entries");

// A TM, and where a message goes. A peer is no more than its address.
struct address { struct nid nid; uint32_t pid, portal, tmid; };

static int control;       // the connection
static uint32_t sequence; // of the last request
static bool show;         // every byte

static _Noreturn void __attribute__((format(printf, 1, 2))) fail(const char *format, ...)
{
	va_list a;
	va_start(a, format);
	fputs("client: ", stderr);
	vfprintf(stderr, format, a);
	fputc('\n', stderr);
	va_end(a);
	exit(1);
}

#define CHECK(condition, ...) do { if (!(condition)) fail(__VA_ARGS__); } while (0)

static const char *const names[] = { "", "HELLO", "NIDS_GET", "AREA_ADD", "AREA_DEL", "BUF_REGISTER", "BUF_DEREGISTER", "TM_START", "TM_STOP" };

// dump shows bytes, and * for lines of zeros at the end, if they are more than one.
static void dump(const char *who, const char *what, const void *bytes, size_t n)
{
	const uint8_t *b = bytes;
	size_t used = n;
	if (!show)
		return;
	while (used > 0 && b[used - 1] == 0)
		used--;
	used = (used + 15) / 16 * 16;
	size_t shown = n > used + 16 ? used : n;
	printf("%s: %s\n", who, what);
	for (size_t i = 0; i < shown; i++)
		printf("%s%02x%s", i % 16 == 0 ? "   " : i % 4 == 0 ? " " : "", b[i], i % 16 == 15 || i + 1 == shown ? "\n" : "");
	if (shown < n)
		printf("   *\n");
}

// ---- records ----

// receive reads one record, and what descriptors came with it: -1 is none.
static size_t receive(void *record, int fds[3])
{
	union { struct cmsghdr head; char room[CMSG_SPACE(4 * sizeof(int))]; } c;
	struct iovec v = { record, MAX_RECORD };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &c };
	ssize_t n;
	int ends = 0; // a record may have come with the first
	do {
		m.msg_controllen = sizeof c;
		n = recvmsg(control, &m, MSG_CMSG_CLOEXEC);
	} while ((n < 0 && (errno == EINTR || errno == ECONNRESET)) || (n == 0 && ends++ == 0)); // what lnetd has said comes yet
	CHECK(n >= 0, "recvmsg: %s", strerror(errno));
	CHECK(n > 0, "lnetd has closed the connection");
	CHECK(!(m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)), "a record, or what came with it, was too long");
	fds[0] = fds[1] = fds[2] = -1;
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);
	if (h && h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS && h->cmsg_len <= CMSG_LEN(3 * sizeof(int)))
		memcpy(fds, CMSG_DATA(h), h->cmsg_len - CMSG_LEN(0));
	const struct header *r = record;
	CHECK((size_t)n >= sizeof *r && r->magic == MAGIC && r->version == 1 && r->length == (size_t)n && r->flags == 0, "lnetd has sent no record");
	return (size_t)n;
}

// hear takes a notice, which may come at any time.
static void hear(const uint8_t *record, size_t n)
{
	struct notice s = { 0 };
	n -= sizeof(struct header);
	CHECK(n >= 8 && n <= sizeof s, "a notice of %zu bytes", n);
	memcpy(&s, record + sizeof(struct header), n);
	int length = (int)n - 8;
	switch (s.kind) {
	case 1:
		fprintf(stderr, "client: lnetd ends in %d s: %.*s\n", s.value, length, s.text);
		break;
	case 2:
		fail("lnetd has cut us off: %.*s: %s", length, s.text, strerror(-s.value));
	} // of others we need not know
}

// listen_to_lnetd hears what lnetd has said without having been asked, if it has. When it
// cuts us off, that is there before operations end by it.
static void listen_to_lnetd(void)
{
	struct pollfd p = { .fd = control, .events = POLLIN };
	uint8_t record[MAX_RECORD];
	int fds[3];
	if (poll(&p, 1, 0) <= 0)
		return;
	size_t n = receive(record, fds);
	CHECK(((struct header *)(void *)record)->opcode == NOTICE, "a reply to nothing");
	hear(record, n);
}

// ask makes a request, and waits for the reply, of which size is the room, and then the
// length. It returns 0, or the errno of a failure, whose words are in the reply.
static int ask(uint16_t opcode, const void *body, size_t length, int fd, void *reply, size_t *size, int fds[3])
{
	uint8_t record[MAX_RECORD];
	struct header h = { MAGIC, 1, opcode, (uint32_t)(sizeof h + length), ++sequence, 0, 0 };
	struct iovec v = { record, h.length };
	union { struct cmsghdr head; char room[CMSG_SPACE(sizeof(int))]; } c = { 0 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	memcpy(record, &h, sizeof h);
	if (length)
		memcpy(record + sizeof h, body, length);
	if (fd >= 0) {
		m.msg_control = &c;
		m.msg_controllen = sizeof c;
		c.head = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
		memcpy(CMSG_DATA(&c.head), &fd, sizeof fd);
	}
	dump("client", show ? names[opcode] : "", record, h.length);
	while (sendmsg(control, &m, MSG_NOSIGNAL) < 0) // if it fails, what lnetd has said tells more
		if (errno != EINTR)
			break;
	for (;;) {
		size_t n = receive(record, fds);
		const struct header *r = (const void *)record;
		dump("lnetd", show ? names[opcode] : "", record, n);
		if (r->opcode == NOTICE) {
			hear(record, n);
			continue;
		}
		CHECK(r->opcode == opcode && r->sequence == sequence, "a reply to nothing: opcode %u, sequence %u", r->opcode, r->sequence);
		n -= sizeof *r;
		size_t k = n < *size ? n : *size;
		if (k)
			memcpy(reply, record + sizeof *r, k);
		*size = n;
		return -r->status;
	}
}

// must makes a request that has to succeed, and whose reply has such a size.
static void must(const char *what, uint16_t opcode, const void *body, size_t length, int fd, void *reply, size_t size, int fds[3])
{
	int none[3];
	char words[1024] = "";
	size_t n = sizeof words;
	int e = ask(opcode, body, length, fd, words, &n, fds ? fds : none);
	CHECK(e == 0, "%s: %.*s: %s", what, (int)n, words, strerror(e));
	CHECK(n == size, "the reply to %s has %zu bytes, not %zu", what, n, size);
	if (size)
		memcpy(reply, words, size);
}

// refused makes a request that has to fail.
static void refused(const char *what, uint16_t opcode, const void *body, size_t length, int fd, int want)
{
	char words[1024];
	size_t n = sizeof words;
	int none[3], e = ask(opcode, body, length, fd, words, &n, none);
	CHECK(e == want, "%s: %s, not %s", what, strerror(e), strerror(want));
}

// ---- memory ----

enum { PAGE = 4096, MESSAGE = 512, BATCH = 8, BULK = 1 << 20, AREA = 2 * PAGE + 2 * BULK, BUFFERS = 64 };

static uint8_t *memory; // the area
static uint32_t area;

struct buffer {
	uint32_t index, generation, operation; // the last is counted by us
	uint8_t opcode;                        // of the operation under way, else 0
	uint32_t need;                         // credits that it has
	struct completion last;                // the final completion
	struct completion got[BATCH];          // messages
	unsigned messages, read;
};

static struct buffer *named[BUFFERS]; // by index

// make_area makes memory that both have, without the seal first, which lnetd refuses.
static void make_area(void)
{
	struct area_add a = { .size = AREA };
	int fd = memfd_create("client", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	CHECK(fd >= 0 && ftruncate(fd, AREA) == 0 && posix_fallocate(fd, 0, AREA) == 0, "memory: %s", strerror(errno));
	if (!show)
		refused("AREA_ADD of memory that can shrink", AREA_ADD, &a, sizeof a, fd, EPERM);
	CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0, "F_ADD_SEALS: %s", strerror(errno));
	memory = mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(memory != MAP_FAILED, "mmap: %s", strerror(errno));
	must("AREA_ADD", AREA_ADD, &a, sizeof a, fd, &area, sizeof area, NULL);
	close(fd); // the mappings are enough
}

// make_buffer makes a buffer of length bytes from an offset on, in pages, the last one
// first if it is to be backward.
static void make_buffer(struct buffer *b, uint64_t offset, uint32_t length, bool backward)
{
	struct buf_register r = { .count = (length + PAGE - 1) / PAGE };
	struct buf_name name;
	for (uint32_t i = 0; i < r.count; i++) {
		uint32_t page = backward ? r.count - 1 - i : i;
		r.range[i] = (struct range){ area, length < PAGE ? length : PAGE, offset + (uint64_t)page * PAGE };
	}
	must("BUF_REGISTER", BUF_REGISTER, &r, 8 + r.count * sizeof r.range[0], -1, &name, sizeof name, NULL);
	CHECK(name.index < BUFFERS, "buffer %u is beyond our table", name.index);
	*b = (struct buffer){ .index = name.index, .generation = name.generation };
	named[name.index] = b;
}

static void free_buffer(struct buffer *b)
{
	struct buf_name name = { b->index, b->generation };
	must("BUF_DEREGISTER", BUF_DEREGISTER, &name, sizeof name, -1, NULL, 0, NULL);
	named[b->index] = NULL;
}

// ---- the ring ----

static struct {
	struct address at;
	uint32_t handle, credits, spent;
	int wake_lnetd, woken; // eventfd, socket
	uint8_t *file;
	size_t size;
	struct submission *sq;
	struct completion *cq;
	uint32_t sq_entries, cq_entries;
	uint32_t sq_tail, cq_head; // ours: never read back
	_Atomic uint32_t *p_sq_tail, *p_sq_head, *p_cq_tail, *p_cq_head, *p_sq_sleeping, *p_cq_sleeping, *p_sq_posted, *p_sq_waiting;
} tm;

static void start_tm(struct nid nid, uint32_t portal, uint32_t entries)
{
	struct tm_start s = { nid, PID, portal, DYNAMIC, entries, 0 };
	struct tm_start_reply r;
	struct ring_header h;
	struct stat st;
	int fds[3];
	must("TM_START", TM_START, &s, sizeof s, -1, &r, sizeof r, fds);
	CHECK(fds[0] >= 0 && fds[1] >= 0 && fds[2] >= 0, "TM_START without three descriptors");
	CHECK(fstat(fds[0], &st) == 0, "fstat: %s", strerror(errno));
	tm.size = (size_t)st.st_size;
	tm.file = mmap(NULL, tm.size, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
	CHECK(tm.file != MAP_FAILED, "mmap: %s", strerror(errno));
	close(fds[0]);
	memcpy(&h, tm.file, sizeof h);
	dump("lnetd", "ring file", tm.file, sizeof h);
	CHECK(h.magic == RING_MAGIC && h.version == 1 && h.sqe_size == sizeof *tm.sq && h.cqe_size == sizeof *tm.cq, "no ring file");
	CHECK(h.sq_entries == r.submissions && h.cq_entries == r.completions, "the ring is not that of the reply");
	tm.at = (struct address){ nid, PID, portal, r.tmid };
	tm.handle = r.handle;
	CHECK(r.credits > 0 && r.credits <= r.completions, "%u credits", r.credits);
	tm.credits = r.credits;
	tm.wake_lnetd = fds[1];
	tm.woken = fds[2];
	tm.sq = (void *)(tm.file + h.sq_offset);
	tm.cq = (void *)(tm.file + h.cq_offset);
	tm.sq_entries = h.sq_entries;
	tm.cq_entries = h.cq_entries;
	tm.p_sq_tail = (void *)(tm.file + 64);
	tm.p_sq_head = (void *)(tm.file + 128);
	tm.p_cq_tail = (void *)(tm.file + 192);
	tm.p_cq_head = (void *)(tm.file + 256);
	tm.p_sq_sleeping = (void *)(tm.file + 320);
	tm.p_cq_sleeping = (void *)(tm.file + 384);
	tm.p_sq_posted = (void *)(tm.file + 576);
	tm.p_sq_waiting = (void *)(tm.file + 640);
	tm.sq_tail = atomic_load(tm.p_sq_tail); // they do not begin at 0
	tm.cq_head = atomic_load(tm.p_cq_head);
}

// put writes an entry, which publish lets lnetd see.
static void put(const struct submission *s)
{
	uint32_t head = atomic_load_explicit(tm.p_sq_head, memory_order_acquire);
	CHECK(tm.sq_tail - head < tm.sq_entries, "no room for a submission, %u of %u", tm.sq_tail - head, tm.sq_entries);
	memcpy(&tm.sq[tm.sq_tail & (tm.sq_entries - 1)], s, sizeof *s);
	tm.sq_tail++;
	dump("client", "submission", s, sizeof *s);
}

static void publish(void)
{
	uint64_t one = 1;
	atomic_store(tm.p_sq_tail, tm.sq_tail);
	if (atomic_load(tm.p_sq_sleeping) && atomic_exchange(tm.p_sq_sleeping, 0))
		while (write(tm.wake_lnetd, &one, sizeof one) < 0 && errno == EINTR)
			;
}

// wait_posted returns when lnetd has carried out all that was published: peers reach our buffers
// then, whatever tells them of those.
static void wait_posted(void)
{
	const struct timespec second = { .tv_sec = 1 };
	for (int looks = 0; (int32_t)(atomic_load(tm.p_sq_posted) - tm.sq_tail) < 0; looks++) {
		if (looks < 40) {
			sched_yield();
			continue;
		}
		atomic_store(tm.p_sq_waiting, 1);
		if ((int32_t)(atomic_load(tm.p_sq_posted) - tm.sq_tail) < 0)
			syscall(SYS_futex, tm.p_sq_waiting, FUTEX_WAIT, 1, &second, NULL, 0);
		listen_to_lnetd(); // it may have cut us off
	}
}

// sleep_for_completion returns when there may be one. It hears what lnetd says meanwhile.
static void sleep_for_completion(void)
{
	struct pollfd p[2] = { { .fd = tm.woken, .events = POLLIN }, { .fd = control, .events = POLLIN } };
	uint8_t tokens[64];
	atomic_store(tm.p_cq_sleeping, 1);
	if (atomic_load(tm.p_cq_tail) == tm.cq_head) {
		CHECK(poll(p, 2, -1) > 0 || errno == EINTR, "poll: %s", strerror(errno));
		listen_to_lnetd();
		if (p[0].revents && recv(tm.woken, tokens, sizeof tokens, MSG_DONTWAIT) == 0)
			fail("lnetd has given up the ring");
	}
	atomic_store_explicit(tm.p_cq_sleeping, 0, memory_order_relaxed);
}

// next takes one completion out, and notes it with its buffer.
static void next(void)
{
	struct completion c;
	uint32_t fill;
	while ((fill = atomic_load_explicit(tm.p_cq_tail, memory_order_acquire) - tm.cq_head) == 0)
		sleep_for_completion();
	CHECK(fill <= tm.cq_entries, "%u completions in a ring for %u", fill, tm.cq_entries);
	memcpy(&c, &tm.cq[tm.cq_head & (tm.cq_entries - 1)], sizeof c);
	atomic_store_explicit(tm.p_cq_head, ++tm.cq_head, memory_order_release);
	dump("lnetd", "completion", &c, sizeof c);
	CHECK(!(c.flags & ABOUT_TM), "the TM: %s", strerror(-c.status));
	struct buffer *b = c.buffer < BUFFERS ? named[c.buffer] : NULL;
	CHECK(b && b->generation == c.generation && b->operation == c.operation && b->opcode, "a completion of nothing: buffer %u", c.buffer);
	if (b->opcode == MSG_RECV && c.status == 0) {
		CHECK(b->messages < BATCH, "more messages than were asked for");
		b->got[b->messages++] = c;
	}
	if (c.flags & FINAL) {
		b->last = c;
		b->opcode = 0;
		tm.spent -= b->need;
	}
}

// begin submits an operation; what is to be published may wait for others.
static void begin(struct buffer *b, struct submission s, const struct address *to)
{
	uint32_t need = s.opcode == MSG_RECV ? s.max_messages : 1;
	CHECK(!b->opcode, "buffer %u has an operation", b->index);
	s.buffer = b->index;
	s.generation = b->generation;
	s.operation = ++b->operation;
	if (to) {
		s.peer = to->nid;
		s.pid = to->pid;
		s.portal = to->portal;
		s.tmid = to->tmid;
	}
	b->opcode = s.opcode;
	b->messages = b->read = 0;
	b->need = need;
	tm.spent += need;
	put(&s);
}

static void cancel(const struct buffer *b)
{
	put(&(struct submission){ .opcode = CANCEL, .buffer = b->index, .generation = b->generation, .operation = b->operation });
	publish();
}

// end waits for the final completion, with such an errno, and flags beside FINAL.
static const struct completion *end(struct buffer *b, const char *what, int want, int flags)
{
	while (b->opcode)
		next();
	if (b->last.status != -want)
		listen_to_lnetd();
	CHECK(b->last.status == -want && b->last.flags == (FINAL | flags), "%s: %s, flags %#x; not %s, %#x", what,
	      strerror(-b->last.status), b->last.flags, strerror(want), FINAL | flags);
	return &b->last;
}

// message waits for the next message in a buffer, which has to be the peer's.
static const struct completion *message(struct buffer *b, const struct address *peer)
{
	while (b->read == b->messages) {
		if (!b->opcode)
			listen_to_lnetd();
		CHECK(b->opcode, "the buffer takes no message any more: %s", strerror(-b->last.status));
		next();
	}
	const struct completion *c = &b->got[b->read++];
	CHECK(memcmp(&c->sender, &peer->nid, sizeof c->sender) == 0 && c->pid == peer->pid && c->portal == peer->portal && c->tmid == peer->tmid,
	      "a message of portal %u, TM %u", c->portal, c->tmid);
	return c;
}

// ---- addresses and descriptors ----

// parse_address reads a.b.c.d@tcpN:pid:portal:tm, and IPv6 addresses as well.
static struct address parse_address(const char *text)
{
	struct address a = { 0 };
	char ip[INET6_ADDRSTRLEN];
	unsigned net = 0;
	int n = 0;
	if (sscanf(text, "%45[0-9a-fA-F.:]@tcp%n", ip, &n) == 1 && n > 0) {
		a.nid.b[0] = strchr(ip, ':') ? 12 : 0;
		const char *rest = strchr(text + n, ':');
		if ((text[n] == ':' || sscanf(text + n, "%u", &net) == 1) && inet_pton(a.nid.b[0] ? AF_INET6 : AF_INET, ip, &a.nid.b[4]) == 1 &&
		    rest && sscanf(rest, ":%u:%u:%u", &a.pid, &a.portal, &a.tmid) == 3) {
			a.nid.b[1] = 2;
			a.nid.b[2] = (uint8_t)(net >> 8);
			a.nid.b[3] = (uint8_t)net;
			return a;
		}
	}
	fail("%s is not like 10.0.0.1@tcp:12345:34:7", text);
}

// checksum is that of a descriptor of so many bytes.
static uint64_t checksum(const void *descriptor, size_t size)
{
	uint64_t w[8], sum = 0;
	memcpy(w, descriptor, size);
	for (size_t i = 0; i < size / 8 - 1; i++)
		sum ^= w[i];
	return sum;
}

// descriptor_size is that of all with such a NID.
static size_t descriptor_size(struct nid nid)
{
	return nid.b[0] ? sizeof(struct large_descriptor) : sizeof(struct descriptor);
}

// describe makes a descriptor of a passive buffer of ours; type is 2 for PASSIVE_RECV, 3
// for PASSIVE_SEND. It returns where the next one goes.
static uint8_t *describe(uint8_t *out, uint64_t match_bits, uint32_t type, uint64_t size)
{
	struct descriptor d = { .match_bits = match_bits, .pid = PID, .portal = tm.at.portal, .tmid = tm.at.tmid, .type = type, .size = size };
	struct large_descriptor l = { DESCRIPTOR_MAGIC, 1, match_bits, tm.at.nid, PID, tm.at.portal, type, size, 0 };
	for (int i = 0; i < 8; i++)
		d.nid = d.nid << 8 | tm.at.nid.b[i];
	d.checksum = checksum(&d, sizeof d);
	l.checksum = checksum(&l, sizeof l);
	size_t n = descriptor_size(tm.at.nid);
	memcpy(out, n == sizeof l ? (void *)&l : (void *)&d, n);
	return out + n;
}

// described reads a descriptor, of which the TM has to be the peer, and returns the match
// bits.
static uint64_t described(const uint8_t *in, const struct address *peer, uint32_t type)
{
	struct descriptor d;
	struct large_descriptor l;
	if (peer->nid.b[0]) {
		memcpy(&l, in, sizeof l);
		CHECK(l.magic == DESCRIPTOR_MAGIC && l.version == 1 && l.checksum == checksum(&l, sizeof l) && memcmp(&l.nid, &peer->nid, sizeof l.nid) == 0, "a bad descriptor");
		d = (struct descriptor){ .match_bits = l.match_bits, .portal = l.portal, .tmid = (uint32_t)(l.match_bits >> 52), .type = l.type, .size = l.size };
	} else {
		memcpy(&d, in, sizeof d);
		CHECK(d.checksum == checksum(&d, sizeof d), "a bad descriptor");
	}
	CHECK(d.type == type && d.size == BULK && d.tmid == peer->tmid && d.portal == peer->portal, "a descriptor of something else");
	return d.match_bits;
}

// ---- the conversation ----

// In is the first page of the area, out are parts of the second, bulk lies behind.
static struct buffer in, out[BATCH], bulk[2];

static struct submission receiving(uint32_t messages)
{
	return (struct submission){ .opcode = MSG_RECV, .min_receive = MESSAGE, .max_messages = messages };
}

static struct submission sending(uint32_t length) { return (struct submission){ .opcode = MSG_SEND, .length = length }; }

// pattern is byte i of bulk that begins with seed.
static uint8_t pattern(size_t i, unsigned seed) { return (uint8_t)(i * 31 + (i >> 12) + seed); }

// bulk_byte is where byte i of a bulk buffer is; the first has its pages backward.
static uint8_t *bulk_byte(int k, size_t i)
{
	size_t page = k == 0 ? BULK / PAGE - 1 - i / PAGE : i / PAGE;
	return memory + 2 * PAGE + (size_t)k * BULK + page * PAGE + i % PAGE;
}

static void fill(int k, unsigned seed, uint8_t xor)
{
	for (size_t i = 0; i < BULK; i++)
		*bulk_byte(k, i) = pattern(i, seed) ^ xor;
}

static void verify(int k, unsigned seed, uint8_t xor)
{
	for (size_t i = 0; i < BULK; i++)
		CHECK(*bulk_byte(k, i) == (pattern(i, seed) ^ xor), "byte %zu of bulk is %#x", i, *bulk_byte(k, i));
}

// echo sends many messages, in batches, which the peer sends back. All counters of the
// ring run over 2^32 meanwhile.
static void echo(const struct address *peer)
{
	for (unsigned round = 0; round < 40; round++) {
		begin(&in, receiving(BATCH), NULL);
		for (unsigned k = 0; k < BATCH; k++) {
			uint32_t length = 2 + (round * 37 + k * 61) % (MESSAGE - 1);
			uint8_t *b = memory + PAGE + k * MESSAGE;
			b[0] = 'E';
			b[1] = (uint8_t)k;
			for (uint32_t i = 2; i < length; i++)
				b[i] = pattern(i, round + k);
			struct submission s = sending(length);
			s.flags = k + 1 < BATCH; // more follow
			begin(&out[k], s, peer);
		}
		publish();
		wait_posted();
		for (unsigned k = 0; k < BATCH; k++) {
			const struct completion *c = message(&in, peer);
			const uint8_t *b = memory + c->offset;
			CHECK(c->offset + c->length <= PAGE && b[0] == 'E' && b[1] < BATCH, "an echo of nothing");
			const uint8_t *sent = memory + PAGE + b[1] * MESSAGE;
			CHECK(c->length == 2 + (round * 37 + b[1] * 61u) % (MESSAGE - 1) && memcmp(b, sent, c->length) == 0, "the echo is not what was sent");
			CHECK(!(c->flags & FINAL) == (k + 1 < BATCH), "message %u has flags %#x", k, c->flags);
		}
		for (unsigned k = 0; k < BATCH; k++)
			end(&out[k], "MSG_SEND", 0, 0);
	}
}

// passive has the peer fetch one buffer, and fill the other with its complement.
static void passive(const struct address *peer)
{
	uint64_t bits = (uint64_t)tm.at.tmid << 52;
	fill(0, 1, 0);
	begin(&bulk[0], (struct submission){ .opcode = PASSIVE_SEND, .length = BULK, .match_bits = bits | 1 }, NULL);
	begin(&bulk[1], (struct submission){ .opcode = PASSIVE_RECV, .match_bits = bits | 2 }, NULL);
	publish();
	wait_posted(); // the message below would come behind them anyway
	uint8_t *m = memory + PAGE;
	m[0] = 'P';
	uint8_t *e = describe(describe(m + 1, bits | 1, 3, BULK), bits | 2, 2, BULK);
	begin(&out[0], sending((uint32_t)(e - m)), peer);
	publish();
	end(&out[0], "MSG_SEND of descriptors", 0, 0);
	end(&bulk[0], "PASSIVE_SEND", 0, 0);
	CHECK(end(&bulk[1], "PASSIVE_RECV", 0, 0)->length == BULK, "the peer has sent %u bytes", bulk[1].last.length);
	verify(1, 1, 0xff);
}

// active fetches a buffer of the peer's, and fills another one of his, whom he tells what
// he has got.
static void active(const struct address *peer)
{
	begin(&in, receiving(2), NULL);
	memory[PAGE] = 'A';
	begin(&out[0], sending(1), peer);
	publish();
	const struct completion *c = message(&in, peer);
	const uint8_t *m = memory + c->offset;
	size_t size = descriptor_size(peer->nid);
	CHECK(c->length == 1 + 2 * size && m[0] == 'A', "not two descriptors");
	uint64_t from = described(m + 1, peer, 3), into = described(m + 1 + size, peer, 2);
	end(&out[0], "MSG_SEND", 0, 0);
	begin(&bulk[0], (struct submission){ .opcode = ACTIVE_RECV, .length = BULK, .match_bits = from }, peer);
	publish();
	CHECK(end(&bulk[0], "ACTIVE_RECV", 0, 0)->length == BULK, "%u bytes were fetched", bulk[0].last.length);
	verify(0, 7, 0);
	fill(1, 7, 0xff);
	begin(&bulk[1], (struct submission){ .opcode = ACTIVE_SEND, .length = BULK, .match_bits = into }, peer);
	publish();
	end(&bulk[1], "ACTIVE_SEND", 0, 0);
	c = message(&in, peer);
	CHECK(c->length == 2 && memcmp(memory + c->offset, "ok", 2) == 0, "the peer has got something else");
}

// mistakes makes those that do not cost the connection, and cancels.
static void mistakes(const struct address *peer)
{
	struct buf_name name = { bulk[0].index, bulk[0].generation };
	begin(&bulk[0], (struct submission){ .opcode = PASSIVE_RECV, .match_bits = (uint64_t)tm.at.tmid << 52 | 3 }, NULL);
	atomic_store(tm.p_sq_tail, tm.sq_tail); // and nobody is woken: the requests are behind it all the same
	refused("BUF_DEREGISTER of a buffer that waits to be busy", BUF_DEREGISTER, &name, sizeof name, -1, EBUSY);
	refused("TM_STOP of a TM that waits to be busy", TM_STOP, &tm.handle, sizeof tm.handle, -1, EBUSY);
	begin(&in, receiving(BATCH), NULL);
	begin(&out[0], sending(0), peer);
	publish();
	end(&out[0], "MSG_SEND of nothing", EINVAL, REJECTED);
	refused("TM_STOP of a busy TM", TM_STOP, &tm.handle, sizeof tm.handle, -1, EBUSY);
	refused("BUF_DEREGISTER of a busy buffer", BUF_DEREGISTER, &name, sizeof name, -1, EBUSY);
	refused("AREA_DEL with buffers", AREA_DEL, &area, sizeof area, -1, EBUSY);
	refused("an opcode that is none", 99, NULL, 0, -1, EOPNOTSUPP);
	cancel(&bulk[0]);
	end(&bulk[0], "PASSIVE_RECV", ECANCELED, 0);
	cancel(&bulk[0]); // which is over: nothing happens
	cancel(&in);
	end(&in, "MSG_RECV", ECANCELED, 0);
}

// join connects, says HELLO, and returns the NID of ours that is on the peer's network.
static struct nid join(const char *path, const struct address *peer)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	struct hello h = { .lowest = 1, .highest = 1, .wanted = POSTED, .program = "cclient" };
	struct hello_reply r;
	static struct nids ours;
	size_t size = sizeof ours;
	int none[3];
	CHECK(strlen(path) < sizeof to.sun_path, "%s is too long", path);
	strcpy(to.sun_path, path);
	control = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	CHECK(control >= 0 && connect(control, (struct sockaddr *)&to, sizeof to) == 0, "connect to %s: %s", path, strerror(errno));
	must("HELLO", HELLO, &h, sizeof h, -1, &r, sizeof r, NULL);
	CHECK(r.version == 1 && r.features == POSTED, "version %u, features %#llx", r.version, (unsigned long long)r.features);
	CHECK(r.buffer_size >= BULK && r.segment_size >= PAGE && r.segments >= BULK / PAGE && r.bytes >= AREA, "lnetd's limits are too low for us");
	int e = ask(NIDS_GET, NULL, 0, -1, &ours, &size, none);
	CHECK(e == 0 && size >= 4 && size == 4 + ours.count * sizeof ours.nid[0], "NIDS_GET: %s, %zu bytes", strerror(e), size);
	for (uint32_t i = 0; i < ours.count; i++)
		if (memcmp(ours.nid[i].b, peer->nid.b, 4) == 0)
			return ours.nid[i];
	fail("lnetd has no NID on the network of the peer");
}

int main(int argc, char **argv)
{
	show = argc == 4 && strcmp(argv[1], "-x") == 0;
	CHECK(argc == 3 + show, "usage: client [-x] SOCKET PEER");
	struct address peer = parse_address(argv[argc - 1]);
	struct nid nid = join(argv[argc - 2], &peer);
	struct counters last;
	make_area();
	unsigned outs = show ? 1 : BATCH;
	for (unsigned k = 0; k < outs; k++)
		make_buffer(&out[k], PAGE + k * MESSAGE, MESSAGE, false);
	start_tm(nid, 34, show ? 2 : 32);
	if (show) {
		memcpy(memory + PAGE, "hello", 5);
		begin(&out[0], sending(5), &peer);
		publish();
		end(&out[0], "MSG_SEND", 0, 0);
	} else {
		make_buffer(&in, 0, PAGE, false);
		make_buffer(&bulk[0], 2 * PAGE, BULK, true);
		make_buffer(&bulk[1], 2 * PAGE + BULK, BULK, false);
		echo(&peer);
		passive(&peer);
		active(&peer);
		mistakes(&peer);
		free_buffer(&in);
		free_buffer(&bulk[0]);
		free_buffer(&bulk[1]);
	}
	CHECK(tm.spent == 0, "%u credits are missing", tm.spent);
	must("TM_STOP", TM_STOP, &tm.handle, sizeof tm.handle, -1, &last, 48, NULL);
	CHECK(last.count == 5, "%u counters", last.count);
	for (unsigned k = 0; k < outs; k++)
		free_buffer(&out[k]);
	must("AREA_DEL", AREA_DEL, &area, sizeof area, -1, NULL, 0, NULL);
	close(control);
	if (!show)
		printf("ok: %llu submissions, %llu completions\n", (unsigned long long)last.counter[0], (unsigned long long)last.counter[1]);
	return 0;
}
