// echo answers every message with the same message.
//
//	cc -std=c11 echo.c -o echo $(pkg-config --cflags --libs lnetd)
//	echo 10.0.0.1@tcp:12345:34:7 [SOCKET]
//
// The address is that of a transfer machine at a NID of the lnetd of this host.

#include <lnetd.h>
#include <stdio.h>
#include <stdlib.h>

enum { BUFFERS = 64, LONGEST = 4096 };

static void check(int result, const char *what)
{
	if (result >= 0)
		return;
	fprintf(stderr, "echo: %s: %s\n", what, lnetd_text());
	exit(1);
}

int main(int argc, char **argv)
{
	struct lnetd_addr address;
	struct lnetd_event events[BUFFERS];
	lnetd *d;
	lnetd_tm *tm;
	void *memory;
	int n;

	if (argc < 2) {
		fprintf(stderr, "usage: echo ADDRESS [SOCKET]\n");
		return 2;
	}
	check(lnetd_addr_parse(argv[1], &address), "address");
	check(lnetd_open(&d, argc > 2 ? argv[2] : NULL, "echo", 0), "open");
	check(lnetd_tm_start(d, &address, 0, &tm), "start");
	check(lnetd_alloc(d, BUFFERS * LONGEST, &memory), "alloc");
	for (int i = 0; i < BUFFERS; i++) { // a message that finds no buffer is lost
		struct iovec range = { (char *)memory + i * LONGEST, LONGEST };
		lnetd_buf *buffer;
		check(lnetd_register(d, &range, 1, NULL, &buffer), "register");
		check(lnetd_recv(tm, buffer, LONGEST, 1), "receive");
	}
	check(lnetd_sync(tm, -1), "receive");
	puts("ready");
	fflush(stdout);

	while ((n = lnetd_events(tm, events, BUFFERS)) >= 0) { // it fails when lnetd has ended
		for (int i = 0; i < n; i++) {
			struct lnetd_event *e = &events[i];
			if (!e->buffer)
				continue;
			// Each buffer has one message, at its beginning. It is sent back from there, and then waits for another one.
			if (e->type == LNETD_RECV && e->flags & LNETD_MESSAGE && e->length > 0)
				check(lnetd_send(tm, e->buffer, e->length, &e->peer), "send");
			else
				check(lnetd_recv(tm, e->buffer, LONGEST, 1), "receive");
		}
		if (n == 0)
			lnetd_wait(tm, -1);
	}
	fprintf(stderr, "echo: %s\n", lnetd_text());
	lnetd_close(d);
	return 1;
}
