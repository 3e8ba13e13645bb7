// chat sends the lines of its standard input to a peer, and prints the messages that come. It shows an event loop: epoll
// watches the standard input, the connection and the transfer machine.
//
//	cc -std=c11 chat.c -o chat $(pkg-config --cflags --libs lnetd)
//	chat ADDRESS PEER [SOCKET]        such as 10.0.0.1@tcp:12345:34:7 10.0.0.2@tcp:12345:34:7

#include <lnetd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { LONGEST = 1024, MESSAGES = 64 };

static lnetd *d;
static lnetd_tm *tm;
static lnetd_buf *in, *out;
static int loop, sending;

static void check(int result, const char *what)
{
	if (result >= 0)
		return;
	fprintf(stderr, "chat: %s: %s\n", what, lnetd_text());
	exit(1);
}

static void watch(int fd)
{
	struct epoll_event e = { .events = EPOLLIN, .data.fd = fd };
	if (epoll_ctl(loop, EPOLL_CTL_ADD, fd, &e) < 0) {
		perror("chat: epoll_ctl");
		exit(1);
	}
}

static lnetd_buf *buffer(size_t size)
{
	struct iovec range = { NULL, size };
	lnetd_buf *b;
	check(lnetd_alloc(d, size, &range.iov_base), "alloc");
	check(lnetd_register(d, &range, 1, NULL, &b), "register");
	return b;
}

static void handle(const struct lnetd_event *e)
{
	if (e->flags & LNETD_MESSAGE) {
		fwrite(lnetd_at(e->buffer, e->offset, NULL), 1, e->length, stdout);
		fflush(stdout);
	}
	if (e->type == LNETD_RECV && e->flags & LNETD_FINAL) // the buffer is full; messages that come now are lost: use several
		check(lnetd_recv(tm, e->buffer, LONGEST, MESSAGES), "receive");
	if (e->type == LNETD_SEND) {
		if (e->status < 0)
			fprintf(stderr, "chat: the message was not sent: %s\n", lnetd_strerror(e->status));
		sending = 0;
		watch(STDIN_FILENO); // the buffer is free for the next line
	}
}

// read_line sends what has been typed. The standard input is watched again when it was sent.
static int read_line(const struct lnetd_addr *peer)
{
	ssize_t n = read(STDIN_FILENO, lnetd_at(out, 0, NULL), LONGEST);
	if (n <= 0)
		return 0;
	epoll_ctl(loop, EPOLL_CTL_DEL, STDIN_FILENO, NULL);
	check(lnetd_send(tm, out, (uint32_t)n, peer), "send");
	sending = 1;
	return 1;
}

int main(int argc, char **argv)
{
	struct lnetd_addr address, peer;
	struct lnetd_event events[16];
	struct epoll_event ready[3];
	int open = 1, n;

	if (argc < 3) {
		fprintf(stderr, "usage: chat ADDRESS PEER [SOCKET]\n");
		return 2;
	}
	check(lnetd_addr_parse(argv[1], &address), "address");
	check(lnetd_addr_parse(argv[2], &peer), "address of the peer");
	check(lnetd_open(&d, argc > 3 ? argv[3] : NULL, "chat", 0), "open");
	check(lnetd_tm_start(d, &address, 0, &tm), "start");
	in = buffer(LONGEST * MESSAGES);
	out = buffer(LONGEST);
	check(lnetd_recv(tm, in, LONGEST, MESSAGES), "receive");
	check(lnetd_sync(tm, -1), "receive"); // from now on the peer can send messages
	loop = epoll_create1(EPOLL_CLOEXEC);
	watch(STDIN_FILENO);
	watch(lnetd_fd(d));
	watch(lnetd_tm_fd(tm));
	puts("ready");
	fflush(stdout);

	while (open || sending) {
		// Take all events, then arm the descriptor: it becomes readable at the next event.
		while ((n = lnetd_tm_arm(tm)) > 0) {
			check(n = lnetd_events(tm, events, 16), "events");
			for (int i = 0; i < n; i++)
				handle(&events[i]);
		}
		check(n, "lnetd has ended");
		if (!open && !sending)
			break;
		n = epoll_wait(loop, ready, 3, -1);
		for (int i = 0; i < n; i++) {
			if (ready[i].data.fd == STDIN_FILENO)
				open = read_line(&peer);
			else if (ready[i].data.fd == lnetd_fd(d))
				check(lnetd_process(d), "lnetd has ended");
		}
	}
	lnetd_close(d);
	return 0;
}
