// A client that talks with a peer (internal/testing/tmpeer, or itself as a server):
//
//	conversation SOCKET PEER           such as /run/lnetd/lnetd.sock 10.0.0.1@tcp:12345:34:7
//	conversation -1 SOCKET PEER        sends one message
//	conversation -s SOCKET ADDRESS N   is the peer at this address, until N clients have said goodbye
//
// It exits with 0 if all was as it should be.
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"

enum { PAGE = 4096, MESSAGE = 512, BATCH = 8, BULK = 1 << 20, RECEIVERS = 64, PATIENCE = 60000 };

static lnetd *domain;
static lnetd_tm *tm;

static lnetd_buf *buffer(void *memory, size_t size)
{
	struct iovec v = { memory, size };
	lnetd_buf *b;
	MUST(lnetd_register(domain, &v, 1, NULL, &b));
	return b;
}

// next waits for an event.
static struct lnetd_event next(void)
{
	struct lnetd_event e;
	int n;
	while ((n = lnetd_events(tm, &e, 1)) == 0) {
		int r = lnetd_wait(tm, PATIENCE);
		CHECK(r != 0, "no event comes");
		MUST(r);
	}
	MUST(n);
	return e;
}

// ---- the client ----

static uint8_t *in_memory, *out_memory, *bulk_memory[2];
static lnetd_buf *in, *out[BATCH], *bulk[2];
static struct lnetd_event messages[64], final[BATCH + 3];
static unsigned messages_count, messages_read;
static unsigned final_set;

static unsigned slot(const lnetd_buf *b)
{
	for (unsigned i = 0; i < BATCH; i++)
		if (b == out[i])
			return i;
	return b == in ? BATCH : b == bulk[0] ? BATCH + 1 : BATCH + 2;
}

static void take(void)
{
	struct lnetd_event e = next();
	CHECK(e.buffer, "event of type %u, status %d", e.type, e.status);
	if (e.flags & LNETD_MESSAGE) {
		CHECK(messages_count < 64, "too many messages");
		messages[messages_count++] = e;
	}
	if (e.flags & LNETD_FINAL) {
		final[slot(e.buffer)] = e;
		final_set |= 1u << slot(e.buffer);
	}
}

static struct lnetd_event end(lnetd_buf *b, int want, unsigned flags)
{
	unsigned s = slot(b);
	while (!(final_set & 1u << s))
		take();
	final_set &= ~(1u << s);
	CHECK(final[s].status == -want, "an operation of type %u ended with %d, not %d", final[s].type, final[s].status, -want);
	CHECK((final[s].flags & ~(unsigned)LNETD_MESSAGE) == (LNETD_FINAL | flags), "flags %#x", final[s].flags);
	return final[s];
}

static struct lnetd_event message(const struct lnetd_addr *peer)
{
	while (messages_read == messages_count)
		take();
	struct lnetd_event e = messages[messages_read++];
	if (messages_read == messages_count)
		messages_read = messages_count = 0;
	CHECK(memcmp(&e.peer, peer, sizeof e.peer) == 0, "a message of another peer");
	return e;
}

static uint8_t pattern(size_t i, unsigned seed) { return (uint8_t)(i * 31 + (i >> 12) + seed); }

static void echo(const struct lnetd_addr *peer)
{
	for (unsigned round = 0; round < 40; round++) {
		MUST(lnetd_recv(tm, in, MESSAGE, BATCH));
		for (unsigned k = 0; k < BATCH; k++) {
			uint32_t length = 2 + (round * 37 + k * 61) % (MESSAGE - 1);
			uint8_t *m = out_memory + k * MESSAGE;
			m[0] = 'E';
			m[1] = (uint8_t)k;
			for (uint32_t i = 2; i < length; i++)
				m[i] = pattern(i, round + k);
			MUST(lnetd_send(tm, out[k], length, peer));
		}
		MUST(lnetd_sync(tm, PATIENCE));
		for (unsigned k = 0; k < BATCH; k++) {
			struct lnetd_event e = message(peer);
			const uint8_t *m = lnetd_at(in, e.offset, NULL);
			CHECK(m[0] == 'E' && m[1] < BATCH && e.length == 2 + (round * 37 + m[1] * 61u) % (MESSAGE - 1) &&
			      memcmp(m, out_memory + m[1] * MESSAGE, e.length) == 0, "the echo is not what was sent");
		}
		end(in, 0, 0);
		for (unsigned k = 0; k < BATCH; k++)
			end(out[k], 0, 0);
	}
}

// passive has the peer fetch one buffer, and fill the other with its complement.
static void passive(const struct lnetd_addr *peer)
{
	struct lnetd_desc from, to;
	for (size_t i = 0; i < BULK; i++)
		bulk_memory[0][i] = pattern(i, 1);
	MUST(lnetd_offer(tm, bulk[0], LNETD_OUT, BULK, &from));
	MUST(lnetd_offer(tm, bulk[1], LNETD_IN, 0, &to));
	out_memory[0] = 'P';
	memcpy(out_memory + 1, from.bytes, from.size);
	memcpy(out_memory + 1 + from.size, to.bytes, to.size);
	MUST(lnetd_send(tm, out[0], 1 + from.size + to.size, peer));
	end(out[0], 0, 0);
	end(bulk[0], 0, 0);
	CHECK(end(bulk[1], 0, 0).length == BULK, "the peer has not filled the buffer");
	for (size_t i = 0; i < BULK; i++)
		CHECK((bulk_memory[1][i] ^ pattern(i, 1)) == 0xff, "byte %zu is %#x", i, bulk_memory[1][i]);
}

// active fetches a buffer of the peer, and fills another one, and the peer says what it has received.
static void active(const struct lnetd_addr *peer)
{
	MUST(lnetd_recv(tm, in, MESSAGE, 2));
	out_memory[0] = 'A';
	MUST(lnetd_send(tm, out[0], 1, peer));
	struct lnetd_event e = message(peer);
	const uint8_t *m = lnetd_at(in, e.offset, NULL);
	uint32_t size = (e.length - 1) / 2;
	CHECK((size == 48 || size == 64) && m[0] == 'A', "not two descriptors");
	end(out[0], 0, 0);
	REFUSED(EPERM, lnetd_move(tm, bulk[0], LNETD_OUT, BULK, m + 1, size));
	REFUSED(EINVAL, lnetd_move(tm, bulk[0], LNETD_IN, 0, m + 1, size - 1));
	MUST(lnetd_move(tm, bulk[0], LNETD_IN, 0, m + 1, size));
	CHECK(end(bulk[0], 0, 0).length == BULK, "not everything was fetched");
	for (size_t i = 0; i < BULK; i++) {
		CHECK(bulk_memory[0][i] == pattern(i, 7), "byte %zu is %#x", i, bulk_memory[0][i]);
		bulk_memory[1][i] = (uint8_t)~pattern(i, 7);
	}
	MUST(lnetd_move(tm, bulk[1], LNETD_OUT, BULK, m + 1 + size, size));
	end(bulk[1], 0, 0);
	e = message(peer);
	CHECK(e.length == 2 && memcmp(lnetd_at(in, e.offset, NULL), "ok", 2) == 0, "the peer has received something else");
	end(in, 0, 0);
}

// mistakes makes those that do not cost the connection, and cancels.
static void mistakes(const struct lnetd_addr *peer)
{
	struct lnetd_desc desc;
	MUST(lnetd_offer(tm, bulk[0], LNETD_IN, 0, &desc));
	REFUSED(EBUSY, lnetd_offer(tm, bulk[0], LNETD_IN, 0, &desc));
	REFUSED(EBUSY, lnetd_deregister(bulk[0]));
	REFUSED(EBUSY, lnetd_tm_stop(tm));
	REFUSED(EBUSY, lnetd_free(domain, in_memory));
	REFUSED(EINVAL, lnetd_send(tm, out[0], MESSAGE + 1, peer));
	REFUSED(EINVAL, lnetd_recv(tm, in, 0, 1));
	REFUSED(EBUSY, lnetd_reopen(domain));
	MUST(lnetd_recv(tm, in, MESSAGE, BATCH));
	MUST(lnetd_cancel(tm, bulk[0]));
	end(bulk[0], ECANCELED, 0);
	MUST(lnetd_cancel(tm, bulk[0])); // nothing happens
	MUST(lnetd_cancel(tm, in));
	end(in, ECANCELED, 0);
	CHECK(lnetd_events(tm, final, 1) == 0 && !lnetd_pending(tm) && lnetd_wait(tm, 0) == 0 && lnetd_tm_arm(tm) == 0, "an event of nothing");
}

// own returns the address of a TM of ours at lnetd's NID on the network of the peer.
static struct lnetd_addr own(const struct lnetd_addr *peer)
{
	struct lnetd_nid nids[16];
	int n = lnetd_nids(domain, nids, 16);
	for (int i = 0; i < n && i < 16; i++)
		if (memcmp(&nids[i], &peer->nid, 4) == 0)
			return (struct lnetd_addr){ nids[i], LNETD_PID, 34, LNETD_ANY_TM };
	CHECK(false, "lnetd has no NID on the network of the peer");
}

// memory makes the buffers: of lnetd_alloc, and one of adopted memory of each kind.
static void memory(void)
{
	void *m;
	MUST(lnetd_alloc(domain, PAGE, &m));
	in = buffer(in_memory = m, PAGE);
	MUST(lnetd_alloc(domain, BATCH * MESSAGE, &m));
	out_memory = m;
	for (int i = 0; i < BATCH; i++)
		out[i] = buffer(out_memory + i * MESSAGE, MESSAGE);
	m = mmap(NULL, BULK + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(m != MAP_FAILED, "mmap");
	REFUSED(EINVAL, lnetd_adopt(domain, (uint8_t *)m + 1, BULK, LNETD_IN_PLACE));
	MUST(lnetd_adopt(domain, m, BULK, LNETD_IN_PLACE));
	REFUSED(EINVAL, lnetd_adopt(domain, (uint8_t *)m + BULK - 1, 2, LNETD_COPY));
	bulk_memory[0] = m;
	bulk_memory[1] = malloc(BULK);
	MUST(lnetd_adopt(domain, bulk_memory[1], BULK, LNETD_COPY));
	struct iovec v[2] = { { bulk_memory[1], BULK / 2 }, { bulk_memory[1] + BULK / 2, BULK / 2 } };
	bulk[0] = buffer(m, BULK);
	MUST(lnetd_register(domain, v, 2, NULL, &bulk[1]));
	REFUSED(EINVAL, lnetd_register(domain, &(struct iovec){ &v, sizeof v }, 1, NULL, &bulk[1]));
}

static void release(void)
{
	for (int i = 0; i < BATCH; i++)
		MUST(lnetd_deregister(out[i]));
	MUST(lnetd_deregister(in));
	MUST(lnetd_deregister(bulk[0]));
	MUST(lnetd_deregister(bulk[1]));
	MUST(lnetd_free(domain, in_memory));
	MUST(lnetd_free(domain, out_memory));
	MUST(lnetd_free(domain, bulk_memory[1]));
	uint8_t last = bulk_memory[0][BULK - 1];
	MUST(lnetd_free(domain, bulk_memory[0]));
	CHECK(bulk_memory[0][BULK - 1] == last, "lnetd_free has changed the memory");
	CHECK(munmap(bulk_memory[0], BULK + PAGE) == 0, "munmap");
	free(bulk_memory[1]);
}

// once does what the session in hex of the protocol's page shows.
static int once(const char *path, const char *peer_text)
{
	struct lnetd_addr peer, at;
	void *m;
	MUST(lnetd_addr_parse(peer_text, &peer));
	MUST(lnetd_open(&domain, path, "cclient", 0));
	at = own(&peer);
	MUST(lnetd_alloc(domain, 2 * PAGE + 2 * BULK, &m));
	out_memory = (uint8_t *)m + PAGE;
	out[0] = buffer(out_memory, MESSAGE);
	MUST(lnetd_tm_start(domain, &at, 2, &tm));
	memcpy(out_memory, "hello", 5);
	MUST(lnetd_send(tm, out[0], 5, &peer));
	end(out[0], 0, 0);
	MUST(lnetd_tm_stop(tm));
	MUST(lnetd_deregister(out[0]));
	lnetd_free(domain, m);
	lnetd_close(domain);
	return 0;
}

static int client(const char *path, const char *peer_text)
{
	struct lnetd_addr peer, at;
	struct lnetd_limits limits = { .size = sizeof limits };
	MUST(lnetd_addr_parse(peer_text, &peer));
	MUST(lnetd_open(&domain, path, "conversation", 0));
	MUST(lnetd_limits(domain, &limits));
	CHECK(limits.buffer_size >= BULK && limits.memory >= 4 * BULK, "lnetd's limits are too low");
	MUST(lnetd_ping(domain));
	MUST(lnetd_process(domain));
	at = own(&peer);
	memory();
	MUST(lnetd_tm_start(domain, &at, 32, &tm));
	lnetd_tm_addr(tm, &at);
	echo(&peer);
	passive(&peer);
	active(&peer);
	mistakes(&peer);
	out_memory[0] = 'Q';
	MUST(lnetd_send(tm, out[0], 1, &peer));
	end(out[0], 0, 0);
	MUST(lnetd_tm_stop(tm));
	release();
	lnetd_close(domain);
	puts("ok");
	return 0;
}

// ---- the server ----

static struct lnetd_addr asker; // the sender of an A

static void respond(lnetd_buf *b, const void *m, uint32_t length, const struct lnetd_addr *to)
{
	memcpy(lnetd_at(b, 0, NULL), m, length);
	MUST(lnetd_send(tm, b, length, to));
}

// serve processes one message; b is its buffer, which is sent back, or waits for a message again.
static bool serve(const struct lnetd_event *e, struct lnetd_desc *into)
{
	uint8_t m[MESSAGE];
	struct lnetd_desc d[2];
	uint32_t size = (e->length - 1) / 2;
	memcpy(m, lnetd_at(e->buffer, e->offset, NULL), e->length);
	switch (m[0]) {
	case 'Q':
		MUST(lnetd_recv(tm, e->buffer, MESSAGE, 1));
		return true;
	case 'P':
		into->size = size;
		memcpy(into->bytes, m + 1 + size, size);
		MUST(lnetd_move(tm, bulk[0], LNETD_IN, 0, m + 1, size));
		MUST(lnetd_recv(tm, e->buffer, MESSAGE, 1));
		return false;
	case 'A':
		asker = e->peer;
		for (size_t i = 0; i < BULK; i++)
			bulk_memory[0][i] = pattern(i, 7);
		MUST(lnetd_offer(tm, bulk[0], LNETD_OUT, BULK, &d[0]));
		MUST(lnetd_offer(tm, bulk[1], LNETD_IN, 0, &d[1]));
		memcpy(m + 1, d[0].bytes, d[0].size);
		memcpy(m + 1 + d[0].size, d[1].bytes, d[1].size);
		respond(e->buffer, m, 1 + d[0].size + d[1].size, &e->peer);
		return false;
	default:
		respond(e->buffer, m, e->length, &e->peer);
		return false;
	}
}

static int server(const char *path, const char *text, int clients)
{
	struct lnetd_addr at;
	struct lnetd_desc into = { 0 };
	lnetd_buf *verdict;
	void *m;
	MUST(lnetd_addr_parse(text, &at));
	MUST(lnetd_open(&domain, path, "server", 0));
	MUST(lnetd_tm_start(domain, &at, 0, &tm));
	MUST(lnetd_alloc(domain, 2 * BULK, &m));
	for (int i = 0; i < 2; i++)
		bulk[i] = buffer(bulk_memory[i] = (uint8_t *)m + i * BULK, BULK);
	MUST(lnetd_alloc(domain, (RECEIVERS + 1) * MESSAGE, &m));
	for (int i = 0; i < RECEIVERS; i++)
		MUST(lnetd_recv(tm, buffer((uint8_t *)m + i * MESSAGE, MESSAGE), MESSAGE, 1));
	verdict = buffer((uint8_t *)m + RECEIVERS * MESSAGE, MESSAGE);
	MUST(lnetd_sync(tm, PATIENCE));
	puts("ready");
	fflush(stdout);
	while (clients > 0) {
		struct lnetd_event e = next();
		CHECK(e.status == 0, "an event of type %u with status %d", e.type, e.status);
		if (e.type == LNETD_RECV) {
			clients -= serve(&e, &into);
		} else if (e.type == LNETD_SEND && e.buffer != verdict) {
			MUST(lnetd_recv(tm, e.buffer, MESSAGE, 1));
		} else if (e.type == LNETD_ACTIVE_IN) {
			for (size_t i = 0; i < BULK; i++) {
				CHECK(bulk_memory[0][i] == pattern(i, 1), "byte %zu is %#x", i, bulk_memory[0][i]);
				bulk_memory[1][i] = (uint8_t)~bulk_memory[0][i];
			}
			MUST(lnetd_move(tm, bulk[1], LNETD_OUT, BULK, into.bytes, into.size));
		} else if (e.type == LNETD_PASSIVE_IN) {
			for (size_t i = 0; i < BULK; i++)
				CHECK((bulk_memory[1][i] ^ pattern(i, 7)) == 0xff, "byte %zu is %#x", i, bulk_memory[1][i]);
			respond(verdict, "ok", 2, &asker);
		}
	}
	lnetd_close(domain);
	puts("ok");
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 5 && strcmp(argv[1], "-s") == 0)
		return server(argv[2], argv[3], atoi(argv[4]));
	if (argc == 4 && strcmp(argv[1], "-1") == 0)
		return once(argv[2], argv[3]);
	CHECK(argc == 3, "usage: conversation [-1 | -s] SOCKET PEER");
	return client(argv[1], argv[2]);
}
