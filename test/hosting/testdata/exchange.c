// A round trip through lnetd:
//
//	exchange SPIN echo SOCKET ADDRESS        prints "up", and sends messages back until it is killed
//	exchange SPIN ask SOCKET ADDRESS PEER    prints "up"; for each number in its input it exchanges as many messages with
//	                                         the echo at PEER, and prints "time" and how long that took, in ns
//
// SPIN is an argument of lnetd_set_spin, or "-" for its default.
#define _GNU_SOURCE
#include <time.h>

#include "check.h"

enum { MESSAGE = 64, RECEIVERS = 4, PATIENCE = 60000 };

static lnetd *domain;
static lnetd_tm *tm;

static lnetd_buf *buffer(void)
{
	struct iovec v = { NULL, MESSAGE };
	lnetd_buf *b;
	MUST(lnetd_alloc(domain, MESSAGE, &v.iov_base));
	MUST(lnetd_register(domain, &v, 1, NULL, &b));
	return b;
}

static void up(void)
{
	MUST(lnetd_sync(tm, PATIENCE));
	puts("up");
	fflush(stdout);
}

static void echo(void)
{
	struct lnetd_event events[2 * RECEIVERS];
	for (int i = 0; i < RECEIVERS; i++)
		MUST(lnetd_recv(tm, buffer(), MESSAGE, 1));
	up();
	for (;;) {
		int n = lnetd_events(tm, events, 2 * RECEIVERS);
		MUST(n);
		for (int i = 0; i < n; i++) {
			struct lnetd_event *e = &events[i];
			CHECK(e->status == 0 && e->flags & LNETD_FINAL, "an event of type %u with status %d", e->type, e->status);
			if (e->type == LNETD_RECV)
				MUST(lnetd_send(tm, e->buffer, e->length, &e->peer));
			else
				MUST(lnetd_recv(tm, e->buffer, MESSAGE, 1));
		}
		if (n == 0)
			MUST(lnetd_wait(tm, -1));
	}
}

// exchange sends a message, and waits until it was sent and the answer has come.
static void exchange(lnetd_buf *in, lnetd_buf *out, const struct lnetd_addr *peer)
{
	MUST(lnetd_recv(tm, in, MESSAGE, 1));
	MUST(lnetd_send(tm, out, MESSAGE, peer));
	for (int left = 2; left > 0;) {
		struct lnetd_event e;
		int n = lnetd_events(tm, &e, 1);
		MUST(n);
		if (n == 0) {
			int result = lnetd_wait(tm, PATIENCE);
			MUST(result);
			CHECK(result, "no answer");
			continue;
		}
		CHECK(e.status == 0 && e.flags & LNETD_FINAL, "an event of type %u with status %d", e.type, e.status);
		left--;
	}
}

static void ask(const struct lnetd_addr *peer)
{
	lnetd_buf *in = buffer(), *out = buffer();
	unsigned long count;
	up();
	while (scanf("%lu", &count) == 1) {
		struct timespec began, ended;
		clock_gettime(CLOCK_MONOTONIC, &began);
		for (unsigned long i = 0; i < count; i++)
			exchange(in, out, peer);
		clock_gettime(CLOCK_MONOTONIC, &ended);
		printf("time %lld\n", (ended.tv_sec - began.tv_sec) * 1000000000LL + ended.tv_nsec - began.tv_nsec);
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	struct lnetd_addr at, peer;
	CHECK(argc == 5 || argc == 6, "usage: exchange SPIN echo SOCKET ADDRESS | exchange SPIN ask SOCKET ADDRESS PEER");
	MUST(lnetd_addr_parse(argv[4], &at));
	MUST(lnetd_open(&domain, argv[3], NULL, 0));
	if (strcmp(argv[1], "-") != 0)
		MUST(lnetd_set_spin(domain, (unsigned)atoi(argv[1])));
	MUST(lnetd_tm_start(domain, &at, 0, &tm));
	if (argc == 5)
		echo();
	MUST(lnetd_addr_parse(argv[5], &peer));
	ask(&peer);
	lnetd_close(domain);
	return 0;
}
