// files serves the files of a directory. A client sends the descriptor of a buffer, and the name of a file; the server
// moves the file into that buffer, and then sends the result as text. get.cc is a client. Descriptors of transfer
// machines with an IPv6 address are longer than those that it accepts.
//
//	cc -std=c11 files.c -o files $(pkg-config --cflags --libs lnetd)
//	files DIRECTORY ADDRESS [SOCKET]        such as /srv 10.0.0.1@tcp:12345:34:7

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <lnetd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { JOBS = 16, LONGEST = 512, LARGEST = 1 << 20, DESCRIPTOR = 48 };

// A job has a buffer for the request and its answer, and one for the file.
struct job {
	lnetd_buf *message, *file;
	struct lnetd_addr client;
};

static lnetd *d;
static lnetd_tm *tm;
static int directory;

static void check(int result, const char *what)
{
	if (result >= 0)
		return;
	fprintf(stderr, "files: %s: %s\n", what, lnetd_text());
	exit(1);
}

static lnetd_buf *buffer(size_t size, struct job *j)
{
	struct iovec range = { NULL, size };
	lnetd_buf *b;
	check(lnetd_alloc(d, size, &range.iov_base), "alloc");
	check(lnetd_register(d, &range, 1, j, &b), "register");
	return b;
}

static void answer(struct job *j, const char *text)
{
	strcpy(lnetd_at(j->message, 0, NULL), text);
	check(lnetd_send(tm, j->message, (uint32_t)strlen(text), &j->client), "send");
}

// load reads a file into the buffer of a job, and returns its length or -1.
static ssize_t load(const struct job *j, const char *name)
{
	if (strchr(name, '/') || strcmp(name, "..") == 0) {
		errno = EACCES;
		return -1;
	}
	int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return -1;
	ssize_t n = read(fd, lnetd_at(j->file, 0, NULL), LARGEST);
	close(fd);
	return n;
}

// serve processes a request: a descriptor, and a name to the end of the message.
static void serve(struct job *j, const struct lnetd_event *e)
{
	const char *request = lnetd_at(e->buffer, e->offset, NULL);
	char descriptor[DESCRIPTOR], name[LONGEST] = "";
	j->client = e->peer;
	if (e->length <= DESCRIPTOR) {
		answer(j, "the request is too short");
		return;
	}
	memcpy(descriptor, request, DESCRIPTOR);
	memcpy(name, request + DESCRIPTOR, e->length - DESCRIPTOR < LONGEST ? e->length - DESCRIPTOR : LONGEST - 1);
	ssize_t n = load(j, name);
	if (n <= 0)
		answer(j, n < 0 ? strerror(errno) : "the file is empty");
	else if (lnetd_move(tm, j->file, LNETD_OUT, (uint32_t)n, descriptor, DESCRIPTOR) < 0)
		answer(j, lnetd_text());
}

static void handle(const struct lnetd_event *e)
{
	struct job *j = e->data;
	if (e->type == LNETD_RECV && e->flags & LNETD_MESSAGE)
		serve(j, e);
	else if (e->type == LNETD_ACTIVE_OUT)
		answer(j, e->status == 0 ? "ok" : lnetd_strerror(e->status));
	else if (j) // the answer was sent: the next request
		check(lnetd_recv(tm, j->message, LONGEST, 1), "receive");
}

int main(int argc, char **argv)
{
	static struct job jobs[JOBS];
	struct lnetd_addr address;
	struct lnetd_event events[JOBS];
	int n;

	if (argc < 3) {
		fprintf(stderr, "usage: files DIRECTORY ADDRESS [SOCKET]\n");
		return 2;
	}
	directory = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (directory < 0) {
		fprintf(stderr, "files: %s: %s\n", argv[1], strerror(errno));
		return 1;
	}
	check(lnetd_addr_parse(argv[2], &address), "address");
	check(lnetd_open(&d, argc > 3 ? argv[3] : NULL, "files", 0), "open");
	check(lnetd_tm_start(d, &address, 0, &tm), "start");
	for (int i = 0; i < JOBS; i++) {
		jobs[i].message = buffer(LONGEST, &jobs[i]);
		jobs[i].file = buffer(LARGEST, &jobs[i]);
		check(lnetd_recv(tm, jobs[i].message, LONGEST, 1), "receive");
	}
	check(lnetd_sync(tm, -1), "receive");
	puts("ready");
	fflush(stdout);
	while ((n = lnetd_events(tm, events, JOBS)) >= 0) {
		for (int i = 0; i < n; i++)
			handle(&events[i]);
		if (n == 0)
			lnetd_wait(tm, -1);
	}
	fprintf(stderr, "files: %s\n", lnetd_text());
	lnetd_close(d);
	return 1;
}
