// A client that verifies all data, and survives the end of lnetd:
//
//	soak server SOCKET ADDRESS              serves one asker after the other
//	soak asker SOCKET ADDRESS PEER LIFE     makes rounds with the server at PEER; a round may fail
//	soak asker SOCKET ADDRESS PEER LIFE N   makes N rounds, of which none may fail
//
// In a round, messages are echoed, the server fetches and fills memory that the asker offers, and the asker
// fetches and fills memory that the server offers. The server prints "up" when it receives, the asker after
// its first round, "round N" after the others, and "retry" with what was missing after one that has failed. Both
// print "again" when they have connected again. They leave when their input ends.
#define _GNU_SOURCE
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { MESSAGE = 512, BATCH = 8, RECEIVERS = 32, SLOTS = 4, BULK = 1 << 20, PATIENCE = 60000, RETRY = 1000 };

// A buffer and its operation.
struct op {
	lnetd_buf *buffer;
	uint8_t *memory;
	bool open;         // the operation has not ended
	struct slot *slot; // of the server, or NULL
};

// A message.
struct request {
	uint32_t kind, part; // E: echo, P: the asker offers, A: the server offers, V: what the server says after that
	uint64_t life, number;
	struct lnetd_desc out, in; // what is fetched, and filled; with P, and in the answer to A
	uint8_t text[MESSAGE - 160]; // of E
};

static lnetd *domain;
static lnetd_tm *tm;
static struct op ops[64];
static unsigned ops_count;
static bool down;
static unsigned long good, failures, lost;

static struct op *operation(size_t size, struct slot *slot)
{
	struct op *o = &ops[ops_count++];
	void *m;
	CHECK(ops_count <= sizeof ops / sizeof *ops, "too many buffers");
	MUST(lnetd_alloc(domain, size, &m));
	MUST(lnetd_register(domain, &(struct iovec){ m, size }, 1, o, &o->buffer));
	o->memory = m;
	o->slot = slot;
	return o;
}

// begin notes the result of a call that begins an operation. Nothing begins after lnetd has ended.
static bool begin(struct op *o, int result)
{
	CHECK(result == 0 || result == -EPIPE || result == -ESHUTDOWN, "%s", lnetd_strerror(result));
	o->open = result == 0;
	return o->open;
}

// finish processes the part of an event that is the same in both programs.
static struct op *finish(const struct lnetd_event *e)
{
	struct op *o = e->data;
	if (e->type == LNETD_DOWN) {
		down = true;
		for (unsigned i = 0; i < ops_count; i++)
			CHECK(!ops[i].open, "an operation has no final event");
	}
	if (!o) {
		lost += e->type == LNETD_LOST;
		return NULL;
	}
	CHECK(o->open && e->buffer == o->buffer, "an event of an operation that has ended");
	if (e->flags & LNETD_FINAL)
		o->open = false;
	return o;
}

static void reopen(void)
{
	struct timespec pause = { .tv_nsec = 5000000 };
	for (unsigned attempts = 1; lnetd_reopen(domain) < 0; attempts++) {
		if (attempts % 64 == 0)
			printf("attempt %u to connect: %s\n", attempts, lnetd_text());
		nanosleep(&pause, NULL);
		if (pause.tv_nsec < 100000000)
			pause.tv_nsec *= 2;
	}
	down = false;
	puts("again");
}

static bool input_ends(void)
{
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
	return poll(&p, 1, 0) > 0;
}

static void fill(void *to, size_t size, uint64_t life, uint64_t number, uint32_t part)
{
	uint64_t *word = to, seed = ((life << 40) ^ (number << 8) ^ part) * 0x9e3779b97f4a7c15;
	for (size_t i = 0; i < size / sizeof *word; i++)
		word[i] = seed + i * 0xd1342543de82ef95;
}

static void verify(const void *from, size_t size, uint64_t life, uint64_t number, uint32_t part)
{
	const uint64_t *word = from;
	uint64_t seed = ((life << 40) ^ (number << 8) ^ part) * 0x9e3779b97f4a7c15, wrong = 0;
	for (size_t i = 0; i < size / sizeof *word; i++)
		wrong |= word[i] ^ (seed + i * 0xd1342543de82ef95);
	CHECK(wrong == 0, "life %llu, round %llu, part %u: the data are wrong", (unsigned long long)life, (unsigned long long)number, part);
}

// ---- the asker ----

static struct op *in, *out[BATCH], *bulk[2];
static struct request answer;
static struct lnetd_addr peer;
static uint64_t life, number;
static unsigned echoes, attempts; // attempts: rounds that have failed one after the other, at most 4
static bool strict, answered, confirmed, failed, recovering;

static void hear(const struct lnetd_event *e)
{
	static _Alignas(8) struct request m;
	memcpy(&m, in->memory + e->offset, e->length);
	CHECK(memcmp(&e->peer, &peer, sizeof peer) == 0, "a message of a stranger");
	if (m.life != life || m.number != number) {
		CHECK(!strict, "a message of another round");
		return;
	}
	switch (m.kind) {
	case 'E':
		CHECK(m.part < BATCH && e->length == sizeof m - 8 * m.part && !(echoes & 1u << m.part), "this is not what was sent");
		verify(m.text, sizeof m.text - 8 * m.part, life, number, 10 + m.part);
		echoes |= 1u << m.part;
		break;
	case 'A':
		answer = m;
		answered = true;
		break;
	default:
		confirmed = true;
	}
}

static bool echoed(void)
{
	for (int k = 0; k < BATCH; k++)
		if (out[k]->open)
			return false;
	return echoes == (1u << BATCH) - 1;
}
static bool offered(void) { return !out[0]->open && answered; }
static bool moved(void) { return !out[0]->open && !bulk[0]->open && !bulk[1]->open; }
static bool told(void) { return moved() && confirmed; }
static bool ended(void)
{
	for (unsigned i = 0; i < ops_count; i++)
		if (&ops[i] != in && ops[i].open)
			return false;
	return true;
}

static bool is_down(void) { return down; }

static void receive(void)
{
	if (!in->open)
		begin(in, lnetd_recv(tm, in->buffer, MESSAGE, 100));
}

static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

// until processes events until a condition holds. It returns false after some time, if lnetd has ended, and, in a
// round, if an operation has failed.
static bool until(bool (*condition)(void), int limit)
{
	for (int64_t end = now() + limit; !condition();) {
		struct lnetd_event e;
		int n = lnetd_events(tm, &e, 1);
		MUST(n);
		if (n == 0) {
			int64_t left = end - now();
			if (left <= 0)
				return false;
			MUST(lnetd_wait(tm, (int)left));
			continue;
		}
		if (finish(&e) == in && e.flags & LNETD_MESSAGE)
			hear(&e);
		if (down)
			return false;
		if (e.flags & LNETD_FINAL && e.data == in)
			receive();
		else if (e.flags & LNETD_FINAL && e.status < 0)
			failed = true;
		CHECK(!strict || (!failed && lost == 0), "an operation has failed: %s", lnetd_strerror(e.status));
		if (failed && !recovering)
			return false;
	}
	return true;
}

static bool ask(uint32_t kind, const struct lnetd_desc *from, const struct lnetd_desc *to)
{
	struct request m = { .kind = kind, .life = life, .number = number };
	if (from) {
		m.out = *from;
		m.in = *to;
	}
	memcpy(out[0]->memory, &m, sizeof m);
	return begin(out[0], lnetd_send(tm, out[0]->buffer, sizeof m, &peer));
}

// make makes a round. It returns false if that has failed.
static bool make(void)
{
	int limit = strict ? PATIENCE : RETRY << attempts; // the processors may be busy
	struct lnetd_desc from, to;
	number++;
	echoes = 0;
	answered = confirmed = failed = false;
	receive();
	for (uint32_t k = 0; k < BATCH; k++) {
		struct request *m = (void *)out[k]->memory;
		*m = (struct request){ .kind = 'E', .part = k, .life = life, .number = number };
		fill(m->text, sizeof m->text, life, number, 10 + k);
		if (!begin(out[k], lnetd_send(tm, out[k]->buffer, sizeof *m - 8 * k, &peer)))
			return false;
	}
	if (!until(echoed, limit))
		return false;

	fill(bulk[0]->memory, BULK, life, number, 0);
	if (!begin(bulk[0], lnetd_offer(tm, bulk[0]->buffer, LNETD_OUT, BULK, &from)) ||
	    !begin(bulk[1], lnetd_offer(tm, bulk[1]->buffer, LNETD_IN, 0, &to)) || !ask('P', &from, &to) || !until(moved, limit))
		return false;
	verify(bulk[1]->memory, BULK, life, number, 1);

	if (!ask('A', NULL, NULL) || !until(offered, limit) ||
	    !begin(bulk[0], lnetd_move(tm, bulk[0]->buffer, LNETD_IN, 0, answer.out.bytes, answer.out.size)) || !until(moved, limit))
		return false;
	verify(bulk[0]->memory, BULK, life, number, 2);
	fill(bulk[1]->memory, BULK, life, number, 3);
	return begin(bulk[1], lnetd_move(tm, bulk[1]->buffer, LNETD_OUT, BULK, answer.in.bytes, answer.in.size)) && until(told, limit);
}

// recover ends what is left of a round that has failed, and connects again if lnetd has ended.
static void recover(void)
{
	printf("retry after round %llu: answers to messages %#x, descriptors %d, end %d; lnetd has %s; open:", (unsigned long long)number,
	       echoes, answered, confirmed, down ? "ended" : "not ended");
	for (unsigned i = 0; i < ops_count; i++)
		if (ops[i].open)
			printf(" %u", i);
	puts("");
	failures++;
	if (attempts < 4)
		attempts++;
	recovering = true;
	for (unsigned i = 0; i < ops_count; i++)
		if (&ops[i] != in && ops[i].open)
			lnetd_cancel(tm, ops[i].buffer); // if it fails, lnetd has ended, and final events come as well
	CHECK(until(ended, PATIENCE) || down, "operations do not end although they were canceled");
	if (!down && lnetd_process(domain) < 0)
		until(is_down, PATIENCE);
	if (down)
		reopen();
	recovering = false;
}

static void asker(unsigned long rounds)
{
	in = operation(1 << 16, NULL);
	for (int i = 0; i < BATCH; i++)
		out[i] = operation(MESSAGE, NULL);
	for (int i = 0; i < 2; i++)
		bulk[i] = operation(BULK, NULL);
	while (rounds ? good < rounds : !input_ends()) {
		if (make()) {
			good++;
			attempts = 0;
			good == 1 ? puts("up") : printf("round %llu\n", (unsigned long long)number);
			continue;
		}
		CHECK(!strict, "a round has failed");
		recover();
	}
}

// ---- the server ----

// The memory of one request.
static struct slot {
	struct op *in, *out, *reply;
	struct lnetd_addr asker;
	struct request request;
} slots[SLOTS];

static bool idle(const struct slot *s) { return !s->in->open && !s->out->open && !s->reply->open; }

static void withdraw(struct slot *s)
{
	lnetd_cancel(tm, s->in->buffer);
	lnetd_cancel(tm, s->out->buffer);
}

// slot_of returns memory for a request. It ends what earlier askers have begun, and, if all memory is in use, the rest.
static struct slot *slot_of(uint64_t asker_life)
{
	struct slot *free = NULL;
	for (int i = 0; i < SLOTS; i++) {
		if (idle(&slots[i]))
			free = &slots[i];
		else if (slots[i].request.life != asker_life)
			withdraw(&slots[i]);
	}
	for (int i = 0; i < SLOTS && !free; i++)
		withdraw(&slots[i]);
	return free;
}

static void respond(struct op *o, const struct request *m, const struct lnetd_addr *to)
{
	memcpy(o->memory, m, sizeof *m);
	begin(o, lnetd_send(tm, o->buffer, sizeof *m, to));
}

static void listen_again(struct op *o) { begin(o, lnetd_recv(tm, o->buffer, MESSAGE, 1)); }

static void process(struct op *o, const struct lnetd_event *e)
{
	struct request m = { 0 };
	struct slot *s;
	memcpy(&m, o->memory + e->offset, e->length);
	if (m.kind == 'E') {
		begin(o, lnetd_send(tm, o->buffer, e->length, &e->peer)); // the message begins at 0
		return;
	}
	listen_again(o);
	if (!(s = slot_of(m.life)))
		return;
	s->request = m;
	s->asker = e->peer;
	if (m.kind == 'P') {
		begin(s->in, lnetd_move(tm, s->in->buffer, LNETD_IN, 0, m.out.bytes, m.out.size));
		return;
	}
	fill(s->out->memory, BULK, m.life, m.number, 2);
	if (begin(s->out, lnetd_offer(tm, s->out->buffer, LNETD_OUT, BULK, &m.out)) &&
	    begin(s->in, lnetd_offer(tm, s->in->buffer, LNETD_IN, 0, &m.in)))
		respond(s->reply, &m, &e->peer);
}

// proceed continues a request after one of its operations has succeeded.
static void proceed(struct slot *s, uint32_t type)
{
	struct request *m = &s->request;
	if (type == LNETD_ACTIVE_IN) {
		verify(s->in->memory, BULK, m->life, m->number, 0);
		fill(s->out->memory, BULK, m->life, m->number, 1);
		begin(s->out, lnetd_move(tm, s->out->buffer, LNETD_OUT, BULK, m->in.bytes, m->in.size));
	} else if (type == LNETD_PASSIVE_IN) {
		verify(s->in->memory, BULK, m->life, m->number, 3);
		m->kind = 'V';
	}
	if (m->kind == 'V' && !s->reply->open) { // otherwise the event of the message with the descriptors comes later
		respond(s->reply, m, &s->asker);
		m->kind = 0;
	}
}

static void server(void)
{
	struct op *receivers[RECEIVERS];
	for (int i = 0; i < SLOTS; i++)
		slots[i] = (struct slot){ operation(BULK, &slots[i]), operation(BULK, &slots[i]), operation(MESSAGE, &slots[i]), .request.life = 0 };
	for (int i = 0; i < RECEIVERS; i++)
		listen_again(receivers[i] = operation(MESSAGE, NULL));
	MUST(lnetd_sync(tm, PATIENCE));
	puts("up");
	for (;;) {
		struct lnetd_event e;
		int n = lnetd_events(tm, &e, 1);
		MUST(n);
		if (n == 0) {
			if (input_ends())
				return;
			MUST(lnetd_wait(tm, 100));
			continue;
		}
		struct op *o = finish(&e);
		if (down) {
			reopen();
			for (int i = 0; i < RECEIVERS; i++)
				listen_again(receivers[i]);
			continue;
		}
		if (!o || !(e.flags & LNETD_FINAL))
			continue;
		good += e.status == 0;
		failures += e.status != 0;
		if (e.flags & LNETD_MESSAGE)
			process(o, &e);
		else if (!o->slot)
			listen_again(o);
		else if (e.status == 0)
			proceed(o->slot, e.type);
	}
}

int main(int argc, char **argv)
{
	struct lnetd_addr at;
	setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
	bool serves = argc == 4 && strcmp(argv[1], "server") == 0;
	CHECK(serves || argc == 6 || argc == 7, "usage: soak server SOCKET ADDRESS | soak asker SOCKET ADDRESS PEER LIFE [N]");
	MUST(lnetd_addr_parse(argv[3], &at));
	MUST(lnetd_open(&domain, argv[2], argv[1], 0));
	MUST(lnetd_set_patience(domain, PATIENCE)); // the processors may be busy
	MUST(lnetd_tm_start(domain, &at, 0, &tm));
	if (serves) {
		server();
	} else {
		MUST(lnetd_addr_parse(argv[4], &peer));
		life = strtoull(argv[5], NULL, 10);
		strict = argc == 7;
		asker(strict ? strtoul(argv[6], NULL, 10) : 0);
	}
	printf("end %lu succeeded, %lu failed, %lu messages lost\n", good, failures, lost);
	lnetd_close(domain);
	return 0;
}
