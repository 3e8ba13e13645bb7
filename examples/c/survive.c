// survive sends a number to echo.c every 100 ms, and prints the answers. It survives that lnetd ends, that the peer is
// down, and that messages are lost: it waits, longer each time, and tries again.
//
//	cc -std=c11 survive.c -o survive $(pkg-config --cflags --libs lnetd)
//	survive PEER COUNT [SOCKET]        such as 10.0.0.1@tcp:12345:34:7 100

#define _GNU_SOURCE
#include <lnetd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SIZE = 64, ANSWER = 1000 /* ms */, LEAST = 100, MOST = 3000 };

static lnetd *d;
static lnetd_tm *tm;
static lnetd_buf *in, *out;
static int receiving, sending; // the buffers have operations

static void check(int result, const char *what)
{
	if (result >= 0)
		return;
	fprintf(stderr, "survive: %s: %s\n", what, lnetd_text());
	exit(1);
}

static void pause_for(int milliseconds)
{
	struct timespec t = { milliseconds / 1000, milliseconds % 1000 * 1000000L };
	nanosleep(&t, NULL);
}

static lnetd_buf *buffer(void)
{
	struct iovec range = { NULL, SIZE };
	lnetd_buf *b;
	check(lnetd_alloc(d, SIZE, &range.iov_base), "alloc");
	check(lnetd_register(d, &range, 1, NULL, &b), "register");
	return b;
}

// reconnect connects to the next lnetd. Buffers and their content remain.
static void reconnect(void)
{
	for (int wait = LEAST; lnetd_reopen(d) < 0; wait = wait < MOST ? 2 * wait : MOST)
		pause_for(wait);
}

// exchange sends a number and waits for its echo. It returns 1 if it has come, and 0 if the peer does not answer or lnetd
// has ended.
static int exchange(int number, const struct lnetd_addr *peer)
{
	if (!receiving)
		receiving = lnetd_recv(tm, in, SIZE, 1) == 0;
	if (!sending) { // otherwise the last message has not left yet
		memcpy(lnetd_at(out, 0, NULL), &number, sizeof number);
		sending = lnetd_send(tm, out, sizeof number, peer) == 0;
	}
	for (;;) {
		struct lnetd_event e;
		int n = lnetd_events(tm, &e, 1), got;
		if (n < 0) { // after LNETD_DOWN, the last event
			reconnect();
			return 0;
		}
		if (n == 0) {
			if (lnetd_wait(tm, ANSWER) == 0)
				return 0; // the message or its answer is lost
			continue;
		}
		if (e.type == LNETD_RECV && e.flags & LNETD_FINAL)
			receiving = 0;
		if (e.type == LNETD_SEND) {
			sending = 0;
			if (e.status < 0 && lnetd_process(d) >= 0)
				return 0; // the peer is down
		}
		if (e.flags & LNETD_MESSAGE && e.length == sizeof got) {
			memcpy(&got, lnetd_at(in, e.offset, NULL), sizeof got);
			if (got == number)
				return 1;
			receiving = receiving || lnetd_recv(tm, in, SIZE, 1) == 0; // it was a late answer
		}
	}
}

int main(int argc, char **argv)
{
	struct lnetd_addr peer, me = { .pid = LNETD_PID, .portal = 34, .tmid = LNETD_ANY_TM };

	if (argc < 3) {
		fprintf(stderr, "usage: survive PEER COUNT [SOCKET]\n");
		return 2;
	}
	check(lnetd_addr_parse(argv[1], &peer), "address");
	check(lnetd_open(&d, argc > 3 ? argv[3] : NULL, "survive", 0), "open");
	check(lnetd_nids(d, &me.nid, 1), "NIDs");
	check(lnetd_tm_start(d, &me, 0, &tm), "start");
	in = buffer();
	out = buffer();
	for (int number = 1; number <= atoi(argv[2]); number++) {
		for (int wait = LEAST; !exchange(number, &peer); wait = wait < MOST ? 2 * wait : MOST)
			pause_for(wait);
		printf("answer %d\n", number);
		fflush(stdout);
		pause_for(LEAST);
	}
	lnetd_close(d);
	return 0;
}
