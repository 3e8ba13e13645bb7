// An lnetd that sends and writes damaged bytes, in one process with a client: it has sent everything before the client
// begins, so there are no threads.
//
//	hostile bytes       damages each byte of each record, of the ring file and of a completion; before that, the
//	                    largest range has the largest number of bytes
//	hostile random N    N times what random numbers say
//	hostile flood       the socket always has another notice, and no reply
//
// With -DLIBFUZZER it is a target of libFuzzer, which looks for inputs that reach new code:
//
//	clang -DLIBFUZZER -g -O1 -fsanitize=fuzzer,address,undefined -Isrc testdata/hostile.c $(ls src/*.c | grep -v connect) -pthread
//
// The program ends with abort, or by a sanitizer, if something is wrong. It has its own lni_connect instead of the
// library's, and its own recvmsg.
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"
#include "internal.h"

enum { BUFFERS = 3, SIZE = 4096, ENTRIES = 8, RING_SIZE = 4096 + 4 * ENTRIES * 128 + 4096 };

static const uint8_t *input; // what to damage
static size_t input_left;
static int damaged = -1; // the byte to damage, of all
static int position;     // of the next byte that is sent
static uint64_t range_size = 4096;
static bool flooding; // each recvmsg returns a notice
static unsigned notices;

static uint8_t byte(void)
{
	if (!input_left)
		return 0;
	input_left--;
	return *input++;
}

static uint32_t word(void)
{
	uint32_t v = byte();
	v |= (uint32_t)byte() << 8;
	v |= (uint32_t)byte() << 16;
	return v | (uint32_t)byte() << 24;
}

// spoil damages bytes by position, and by the input.
static void spoil(void *bytes, size_t size)
{
	uint8_t *b = bytes;
	if (damaged >= position && damaged < position + (int)size)
		b[damaged - position] ^= 0xff;
	position += (int)size;
	for (int n = byte() & 3; n > 0 && size; n--)
		b[(byte() | (size_t)byte() << 8) % size] ^= byte();
}

// transmit sends a record with descriptors, or one that the input describes.
static void transmit(int to, uint16_t opcode, uint32_t sequence, const void *body, size_t size, const int *fds, int count)
{
	uint8_t record[RECORD_SIZE] = { 0 };
	int extra[4], kind = byte();
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof extra)];
	} control = { .room = { 0 } };
	struct wire_header h = { RECORD_MAGIC, 1, opcode, 0, sequence, 0, 0 };
	size_t length = sizeof h + size;
	if (size)
		memcpy(record + sizeof h, body, size);
	switch (kind) {
	case 1: // a failure
		h.status = (int32_t)word();
		break;
	case 2: // a length
		length = sizeof h + (byte() | (size_t)byte() << 8) % (sizeof record - sizeof h);
		break;
	case 3: // too many descriptors, or too few
		for (int i = 0; i < 4; i++)
			extra[i] = STDIN_FILENO;
		fds = extra;
		count = byte() % 5;
		break;
	case 4: // no record
		return;
	case 5: // a notice
		opcode = h.opcode = OP_NOTICE;
		h.sequence = 0;
		record[sizeof h] = byte();
		length += 8;
		break;
	}
	h.length = (uint32_t)length;
	memcpy(record, &h, sizeof h);
	spoil(record, length);
	struct iovec v = { record, kind == 6 ? byte() % (length + 1) : length };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	if (count > 0) {
		m.msg_control = &control;
		m.msg_controllen = CMSG_SPACE((size_t)count * sizeof *fds);
		control.head = (struct cmsghdr){ .cmsg_len = CMSG_LEN((size_t)count * sizeof *fds), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
		memcpy(CMSG_DATA(&control.head), fds, (size_t)count * sizeof *fds);
	}
	if (sendmsg(to, &m, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno != EAGAIN && errno != EPIPE)
		abort();
}

// complete writes completions: in the first run of a byte that is not damaged they are right.
static void complete(uint8_t *ring, uint32_t head)
{
	uint32_t n = input ? byte() % (ENTRIES + 2) : 2;
	struct wire_completion *cq = (void *)(ring + 4096 + 4 * ENTRIES * 128);
	for (uint32_t i = 0; i < n && i < ENTRIES; i++) {
		struct wire_completion c = { .generation = 1, .operation = 1, .flags = COMPLETION_FINAL, .time = 1 };
		c.buffer = i;
		if (input) {
			c.buffer = byte() % (BUFFERS + 1);
			c.flags = byte() & 7;
			c.status = byte() & 1 ? -(int32_t)byte() : 0;
			c.length = byte() * 32u;
			c.offset = byte() * 32u;
		}
		if (c.buffer == 0)
			c.sender.bytes[1] = 2;
		spoil(&c, sizeof c);
		memcpy(&cq[(head + i) % ENTRIES], &c, sizeof c);
	}
	uint32_t words[] = { head + n, byte(), byte() & 3, byte(), byte() };
	spoil(words, sizeof *words);
	memcpy(ring + WORD_CQ_TAIL, words, 4);
	memcpy(ring + WORD_SQ_HEAD, &words[1], 4);
	memcpy(ring + WORD_SQ_SLEEPING, &words[2], 4);
	memcpy(ring + WORD_SQ_POSTED, &words[3], 4);
	memcpy(ring + WORD_CQ_OVERFLOW, &words[4], 4);
}

// start_tm sends the reply to TM_START with a ring file.
static void start_tm(int to, uint32_t sequence)
{
	struct wire_ring h = { RING_MAGIC, 1, 4096, 4096, 4 * ENTRIES, 4096 + 4 * ENTRIES * 128, ENTRIES, 128, 64 };
	struct wire_tm_start_reply r = { .tmid = 5, .completions = ENTRIES, .submissions = 4 * ENTRIES, .match_bits = (uint64_t)5 << 52 | 9 };
	int sockets[2], fds[3] = { memfd_create("ring", MFD_CLOEXEC | MFD_ALLOW_SEALING), eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), -1 };
	if (fds[0] < 0 || fds[1] < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) < 0 || ftruncate(fds[0], RING_SIZE) < 0)
		abort();
	fds[2] = sockets[0];
	uint8_t *ring = mmap(NULL, RING_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
	if (ring == MAP_FAILED || fcntl(fds[0], F_ADD_SEALS, F_SEAL_SHRINK) < 0)
		abort();
	spoil(&h, sizeof h);
	memcpy(ring, &h, sizeof h);
	complete(ring, 0);
	transmit(to, OP_TM_START, sequence, &r, sizeof r, fds, 3);
	munmap(ring, RING_SIZE);
	close(sockets[1]);
	for (int i = 0; i < 3; i++)
		close(fds[i]);
}

// lni_connect is that of the library, for this program: the socket holds all that lnetd will ever say.
int lni_connect(const char *path, int patience)
{
	(void)path, (void)patience;
	int ends[2], size = 1 << 20;
	uint32_t sequence = 0, area = 0;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
		abort();
	setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
	struct wire_hello_reply hello = {
		.version = 1, .features = FEATURE_OVERFLOW | FEATURE_POSTED | FEATURE_MATCH_BITS | FEATURE_FUTEX, .buffer_size = 1 << 20, .range_size = range_size,
		.ranges = 256, .descriptor_size = 48, .tms = 64, .buffers = 16384, .areas = 64, .completions = 65536, .memory = 1 << 30,
	};
	struct {
		uint32_t count;
		struct lnetd_nid nid;
	} nids = { 1, { { 0, 2, 0, 0, 10, 0, 0, 1 } } };
	transmit(ends[1], OP_HELLO, ++sequence, &hello, sizeof hello, NULL, 0);
	transmit(ends[1], OP_NIDS_GET, ++sequence, &nids, sizeof nids, NULL, 0);
	transmit(ends[1], OP_AREA_ADD, ++sequence, &area, sizeof area, NULL, 0);
	for (uint32_t i = 0; i < BUFFERS; i++) {
		struct wire_buf_name name = { i, 1 };
		transmit(ends[1], OP_BUF_REGISTER, ++sequence, &name, sizeof name, NULL, 0);
	}
	start_tm(ends[1], ++sequence);
	for (int i = 0; i < 4; i++)
		transmit(ends[1], byte() & 1 ? OP_NOP : OP_BUF_DEREGISTER, ++sequence, NULL, 0, NULL, 0);
	close(ends[1]);
	return ends[0];
}

// use makes calls of all kinds, whatever they return, and checks that each operation has one final event.
static void use(lnetd *d, lnetd_tm *tm, lnetd_buf **b, const struct lnetd_addr *to)
{
	struct lnetd_desc desc;
	struct lnetd_event e[3];
	int open = 0, n;
	if (byte() & 1)
		lnetd_begin(tm);
	open += lnetd_recv(tm, b[0], 64, 4) == 0;
	open += lnetd_offer(tm, b[1], LNETD_IN, 0, &desc) == 0;
	open += lnetd_send(tm, b[2], SIZE, to) == 0;
	lnetd_cancel(tm, b[1]);
	lnetd_sync(tm, 0);
	lnetd_pending(tm);
	bool down = false;
	for (int i = 0; i < 50 && (n = lnetd_events(tm, e, 3)) >= 0; i++) {
		for (int k = 0; k < n; k++) {
			open -= e[k].flags & LNETD_FINAL ? 1 : 0;
			down |= e[k].type == LNETD_DOWN;
			if (e[k].flags & LNETD_MESSAGE && (e[k].offset > SIZE || e[k].length > SIZE - e[k].offset || !lnetd_at(e[k].buffer, e[k].offset, NULL)))
				abort();
		}
		lnetd_wait(tm, byte() & 1);
		lnetd_tm_arm(tm);
	}
	lnetd_commit(tm);
	if (open < 0 || (down && open != 0))
		abort();
	if (!down)
		lnetd_process(d);
}

static int run(void)
{
	lnetd *d;
	lnetd_tm *tm = NULL;
	lnetd_buf *b[BUFFERS] = { NULL };
	void *memory = NULL;
	struct lnetd_addr at = { .pid = LNETD_PID, .portal = 34, .tmid = LNETD_ANY_TM }, to;
	struct lnetd_limits limits = { .size = sizeof limits };
	int got = 0;
	if (lnetd_open(&d, "/nowhere", "hostile", 0) < 0)
		return 0;
	lnetd_set_patience(d, 100);
	lnetd_limits(d, &limits);
	uint8_t copied[SIZE];
	if (lnetd_nids(d, &at.nid, 1) >= 1 && lnetd_alloc(d, 2 * SIZE, &memory) == 0 && lnetd_adopt(d, copied, SIZE, LNETD_COPY) == 0) {
		struct iovec v[BUFFERS] = { { memory, SIZE }, { (uint8_t *)memory + SIZE, SIZE }, { copied, SIZE } };
		while (got < BUFFERS && lnetd_register(d, &v[got], 1, NULL, &b[got]) == 0)
			got++;
		if (lnetd_tm_start(d, &at, ENTRIES, &tm) < 0)
			tm = NULL;
	}
	to = (struct lnetd_addr){ at.nid, LNETD_PID, 34, 7 };
	if (tm && got == BUFFERS)
		use(d, tm, b, &to);
	for (int i = 0; i < got; i++)
		lnetd_deregister(b[i]);
	if (tm && lnetd_reopen(d) == 0 && got == 0)
		lnetd_wait(tm, 0);
	lnetd_ping(d);
	lnetd_close(d);
	return 0;
}

ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	static const struct {
		struct wire_header header;
		uint32_t kind;
		int32_t value;
	} notice = { { RECORD_MAGIC, 1, OP_NOTICE, sizeof notice, 0, 0, 0 }, NOTICE_DESCRIPTORS, 48 };
	if (!flooding)
		return syscall(SYS_recvmsg, fd, m, flags);
	notices++;
	memcpy(m->msg_iov->iov_base, &notice, sizeof notice);
	m->msg_controllen = 0;
	m->msg_flags = 0;
	return sizeof notice;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	input = data;
	input_left = size;
	return run();
}

#ifndef LIBFUZZER
static void flood(void)
{
	lnetd *d;
	MUST(lnetd_open(&d, "/nowhere", "hostile", 0));
	flooding = true;
	MUST(lnetd_process(d));
	CHECK(notices > 0 && notices <= MOST_UNASKED, "one call has read %u notices", notices);
	REFUSED(EPROTO, lnetd_ping(d));
	REFUSED(EPROTO, lnetd_process(d));
	lnetd_close(d);
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "flood") == 0) {
		flood();
	} else if (argc == 2) {
		int last = 0;
		range_size = UINT64_MAX;
		run();
		range_size = 4096;
		for (damaged = -1; damaged <= last; damaged++) {
			position = 0;
			run();
			last = position;
		}
	} else {
		CHECK(argc == 3, "usage: hostile bytes | hostile random N | hostile flood");
		uint32_t seed = 12345;
		for (int n = atoi(argv[2]); n > 0; n--) {
			uint8_t data[256];
			for (size_t i = 0; i < sizeof data; i++) {
				seed = seed * 1664525 + 1013904223;
				// mostly 0, so that most records are right
				data[i] = seed >> 28 ? 0 : (uint8_t)(seed >> 16);
			}
			LLVMFuzzerTestOneInput(data, sizeof data);
		}
	}
	puts("ok");
	return 0;
}
#endif
