// The simplest round trip between two processes, with system calls that block:
//
//	floor eventfd    over two eventfds
//	floor tcp        over a TCP connection, 64 bytes in each direction
//
// It prints "up" and the ID of the other process, which is its child. Then it is used like "exchange ask" (exchange.c).
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { MESSAGE = 64 };

static int in, out;
static size_t size; // of a message

// put sends a message. It returns false if the other side has ended.
static bool put(void)
{
	uint64_t message[MESSAGE / 8] = { 1 };
	return write(out, message, size) == (ssize_t)size;
}

// get waits for a message.
static bool get(void)
{
	char message[MESSAGE];
	ssize_t n = 1;
	for (size_t have = 0; have < size && n > 0; have += (size_t)n)
		n = read(in, message + have, size - have);
	return n > 0;
}

// split forks, and connects the two processes. It returns the ID of the child, or 0 in the child.
static pid_t split(bool tcp)
{
	int one = 1, a = eventfd(0, EFD_CLOEXEC), b = eventfd(0, EFD_CLOEXEC), listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof at;
	CHECK(a >= 0 && b >= 0 && listener >= 0 && bind(listener, (struct sockaddr *)&at, length) == 0 && listen(listener, 1) == 0 &&
	      getsockname(listener, (struct sockaddr *)&at, &length) == 0, "%s", strerror(errno));
	pid_t child = fork();
	CHECK(child >= 0, "fork");
	if (child == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	size = tcp ? MESSAGE : sizeof(uint64_t);
	in = child ? a : b;
	out = child ? b : a;
	if (tcp) {
		in = out = child ? socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) : accept(listener, NULL, NULL);
		CHECK(!child || connect(in, (struct sockaddr *)&at, length) == 0, "connect: %s", strerror(errno));
		CHECK(setsockopt(in, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0, "TCP_NODELAY: %s", strerror(errno));
	}
	return child;
}

int main(int argc, char **argv)
{
	unsigned long count;
	CHECK(argc == 2, "usage: floor eventfd|tcp");
	pid_t child = split(strcmp(argv[1], "tcp") == 0);
	if (child == 0) {
		while (get() && put())
			;
		return 0;
	}
	printf("up %d\n", (int)child);
	fflush(stdout);
	while (scanf("%lu", &count) == 1) {
		struct timespec began, ended;
		clock_gettime(CLOCK_MONOTONIC, &began);
		for (unsigned long i = 0; i < count; i++)
			CHECK(put() && get(), "the other process has ended");
		clock_gettime(CLOCK_MONOTONIC, &ended);
		printf("time %lld\n", (ended.tv_sec - began.tv_sec) * 1000000000LL + ended.tv_nsec - began.tv_nsec);
		fflush(stdout);
	}
	kill(child, SIGKILL);
	return 0;
}
