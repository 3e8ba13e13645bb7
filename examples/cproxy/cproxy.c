//go:build ignore
// (so that Go leaves this file alone)

// cproxy is the driver of an NI of lnetd: LNet over UDP. This file speaks the protocol of docs/uplnd-protocol.md with
// lnetd. udp.c is the network, whose datagrams are those of examples/udplnd; replace it to serve another network.
//
//	cc -std=c11 -Wall -Wextra -Werror -pedantic -O2 -o cproxy cproxy.c udp.c
//	cproxy SOCKET ADDRESS PORT        such as /run/lnetd/proxies.sock 10.0.0.1 9990
//
// It ends with SIGINT or SIGTERM. If lnetd ends, or does not have the NI yet, it tries again every second.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "cproxy.h"

enum { MAGIC = 0x4e4c5055, RING = 0x474e4952, MAX_ARRIVALS = 512, ARRIVALS_OF_PEER = 8 };
enum { SQ_TAIL = 64, SQ_HEAD = 128, CQ_TAIL = 192, CQ_HEAD = 256, SQ_SLEEPING = 320, CQ_SLEEPING = 384 }; // words of the ring file
static const int64_t DEFAULT_TIMEOUT = 50000000000;

struct attach { uint32_t magic; uint16_t version, zero; uint32_t net; struct nid nid; char name[32]; };
struct attached { uint32_t magic; uint16_t version, zero; int32_t status; struct nid nid; uint64_t area, timeout; };
struct failure { uint32_t magic; uint16_t version, zero; int32_t status; char text[1012]; };
union record { struct attached attached; struct failure failure; };
struct ring { uint32_t magic; uint16_t version, size; uint32_t sq, reports, cq, orders; uint16_t report_size, order_size; };

struct lnetd {
	int control, eventfd, bell;
	bool over;                              // the ring is not used any more
	uint8_t *file, *area;
	size_t file_size, area_size;
	struct ring ring;
	uint32_t sq_tail, cq_head;
	int64_t timeout;                        // LND timeout in ns; 0: the default
	uint32_t arrival_count;
	struct arrival arrivals[MAX_ARRIVALS];  // the index is the handle; the payload is in a MiB of our half of the area
};

static _Atomic uint32_t *word(const struct lnetd *l, int offset) { return (_Atomic uint32_t *)(void *)(l->file + offset); }

void report(struct lnetd *l, struct entry e)
{
	while (!l->over && l->sq_tail - atomic_load_explicit(word(l, SQ_HEAD), memory_order_acquire) == l->ring.reports)
		l->over = poll(&(struct pollfd){l->control, POLLIN, 0}, 1, 1) > 0; // full for a moment, or lnetd has ended
	if (l->over)
		return;
	memcpy(l->file + l->ring.sq + l->sq_tail % l->ring.reports * sizeof e, &e, sizeof e);
	atomic_store(word(l, SQ_TAIL), ++l->sq_tail);
	if (atomic_load(word(l, SQ_SLEEPING)) && atomic_exchange(word(l, SQ_SLEEPING), 0))
		(void)!write(l->eventfd, &(uint64_t){1}, 8); // EAGAIN: it has enough tokens
}

void report_failed(struct lnetd *l, struct entry e, uint8_t status, const struct reason *why)
{
	e.status = status;
	e.cause = why->cause;
	strcpy(e.text, why->text);
	report(l, e);
}

const uint8_t *payload_of(const struct lnetd *l, const struct entry *send) { return l->area + send->offset; }

static bool is_valid_nid(const struct nid *n)
{
	return n->size == 12 || (n->size == 0 && n->zeros[0] == 0 && n->zeros[1] == 0 && n->zeros[2] == 0);
}

bool is_valid(const struct header *h)
{
	return h->type <= 3 && h->length <= (h->type % 2 ? MIB : 0) && is_valid_nid(&h->dest) && is_valid_nid(&h->src);
}

struct arrival *begin_arrival(struct lnetd *l, struct nid from, const struct header *h)
{
	struct arrival *a = NULL;
	int same = 0; // arrivals of this peer, which must leave memory for others
	for (uint32_t k = 0; k < l->arrival_count; k++)
		if (!l->arrivals[k].used)
			a = &l->arrivals[k];
		else if (memcmp(&l->arrivals[k].from, &from, sizeof from) == 0)
			same++;
	if (!a || same >= ARRIVALS_OF_PEER)
		return NULL;
	*a = (struct arrival){.used = true, .from = from, .header = *h, .payload = l->area + l->area_size / 2 + (a - l->arrivals) * MIB};
	return a;
}

void report_arrival(struct lnetd *l, struct arrival *a)
{
	bool some = a->header.length > 0;
	report(l, (struct entry){.op = ARRIVED, .flags = some ? HAS_PAYLOAD : 0, .handle = a - l->arrivals,
		.offset = some ? a->payload - l->area : 0, .peer = a->from, .pid = NODE, .header = a->header});
}

static void carry_out(struct lnetd *l, struct udp *u, const struct entry *o)
{
	switch (o->op) { // TAKE does not come, because all payloads are received ahead. The others can be ignored
	case SEND: udp_send(u, o); break;
	case RECALL: udp_recall(u, o->handle); break;
	case REFUSE: udp_end(u, l->arrivals[o->handle].from, &broken); // fall through
	case DONE: l->arrivals[o->handle].used = false; udp_resume(u); break;
	case DISCONNECT: udp_end(u, o->peer, &disconnected); break;
	case TIMEOUT: l->timeout = o->time; break;
	case PID:
		if (o->cause == 0)
			report(l, (struct entry){.op = LINK, .flags = UP});
		fprintf(stderr, o->cause == 0 ? "cproxy: serving the NI\n" : "cproxy: another proxy serves the NI, or did a moment ago\n");
		l->over = o->cause != 0; // attach again
	}
}

// serve carries out orders until lnetd ends the connection, or a signal comes.
static void serve(struct lnetd *l, struct udp *u, int udp_fd, int signals)
{
	report(l, (struct entry){.op = REGISTER_PID, .pid = NODE});
	for (;;) {
		while (l->cq_head != atomic_load_explicit(word(l, CQ_TAIL), memory_order_acquire)) {
			struct entry o;
			memcpy(&o, l->file + l->ring.cq + l->cq_head % l->ring.orders * sizeof o, sizeof o);
			atomic_store_explicit(word(l, CQ_HEAD), ++l->cq_head, memory_order_release);
			carry_out(l, u, &o);
		}
		if (l->over)
			return;
		int next = udp_watch(u, l->timeout > 0 ? l->timeout : DEFAULT_TIMEOUT);
		struct pollfd f[] = {{l->control, POLLIN, 0}, {l->bell, POLLIN, 0}, {signals, POLLIN, 0}, {udp_fd, POLLIN, 0}};
		atomic_store(word(l, CQ_SLEEPING), 1);
		poll(f, 4, atomic_load(word(l, CQ_TAIL)) == l->cq_head ? next : 0);
		atomic_store_explicit(word(l, CQ_SLEEPING), 0, memory_order_relaxed);
		if (f[2].revents)
			return;
		char tokens[64];
		ssize_t k = 1;
		while (f[1].revents && (k = recv(l->bell, tokens, sizeof tokens, MSG_DONTWAIT)) > 0)
			;
		if (f[0].revents || k == 0)
			l->over = true;
		else if (f[3].revents)
			udp_receive(u);
	}
}

static int failed(int err, const char *what)
{
	fprintf(stderr, "cproxy: %s: %s\n", what, strerror(err));
	return err;
}

// print_end prints the record with which lnetd has refused or ended the connection, and returns the errno in it.
static int print_end(const union record *r, ssize_t length)
{
	const struct failure *f = &r->failure;
	if (length < 12 || f->magic != MAGIC || f->status >= 0)
		return failed(ECONNRESET, "lnetd");
	fprintf(stderr, "cproxy: lnetd: %.*s (%s)\n", (int)length - 12, f->text, strerror(-f->status));
	return -f->status;
}

static uint8_t *map(int fd, size_t *size)
{
	struct stat s;
	void *m = fstat(fd, &s) == 0 ? mmap(NULL, s.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
	*size = m == MAP_FAILED ? 0 : s.st_size;
	close(fd);
	return m;
}

// attach connects to lnetd. It returns 0, or an errno after it has printed an error.
static int attach(struct lnetd *l, const struct sockaddr_un *at, struct nid nid, int signals)
{
	struct attach a = {.magic = MAGIC, .version = 1, .net = NET_TYPE << 16, .nid = nid, .name = "cproxy"};
	l->control = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (connect(l->control, (const struct sockaddr *)at, sizeof *at) < 0 || send(l->control, &a, sizeof a, MSG_NOSIGNAL) < 0)
		return failed(errno, at->sun_path);
	struct pollfd f[] = {{l->control, POLLIN, 0}, {signals, POLLIN, 0}};
	if (poll(f, 2, -1) < 0 || f[1].revents)
		return ECANCELED;
	union { struct cmsghdr header; char room[CMSG_SPACE(4 * sizeof(int))]; } c;
	union record r = {0};
	struct msghdr m = {.msg_iov = &(struct iovec){&r, sizeof r}, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof c};
	ssize_t n = recvmsg(l->control, &m, MSG_CMSG_CLOEXEC);
	if (n != sizeof r.attached || r.attached.status != 0 || m.msg_controllen < CMSG_LEN(4 * sizeof(int)))
		return print_end(&r, n);
	int fd[4];
	memcpy(fd, CMSG_DATA(&c.header), sizeof fd);
	l->eventfd = fd[1];
	l->bell = fd[2];
	l->file = map(fd[0], &l->file_size);
	l->area = map(fd[3], &l->area_size);
	if (l->file_size < sizeof l->ring || l->area_size != r.attached.area)
		return failed(ENOMEM, "map lnetd's memory");
	memcpy(&l->ring, l->file, sizeof l->ring);
	if (l->ring.magic != RING || l->ring.version != 1 || l->ring.report_size != 256 || l->ring.order_size != 256)
		return failed(EPROTO, "the ring file");
	l->sq_tail = atomic_load(word(l, SQ_TAIL));
	l->cq_head = atomic_load(word(l, CQ_HEAD));
	l->timeout = r.attached.timeout;
	size_t room = l->area_size / 2 / MIB, most = l->ring.reports / 4;
	l->arrival_count = room < most ? room : most;
	return 0;
}

// run attaches, and serves the NI until lnetd ends the connection, or a signal comes. It returns an errno.
static int run(const struct sockaddr_un *at, struct nid nid, uint16_t port, int signals)
{
	struct lnetd l = {.control = -1, .eventfd = -1, .bell = -1};
	int fd, err = attach(&l, at, nid, signals);
	struct udp *u = err ? NULL : udp_open(&l, nid, port, &fd);
	if (u) {
		union record r;
		serve(&l, u, fd, signals);
		udp_close(u);
		ssize_t n = recv(l.control, &r, sizeof r, 0);
		if (n >= 0)
			print_end(&r, n);
	}
	close(l.control);
	close(l.eventfd);
	close(l.bell);
	munmap(l.file, l.file_size);
	munmap(l.area, l.area_size);
	return err;
}

int main(int argc, char **argv)
{
	struct nid nid = {.type = NET_TYPE};
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int port = argc == 4 ? atoi(argv[3]) : 0;
	if (port < 1 || port > 65535 || strlen(argv[1]) >= sizeof at.sun_path || inet_pton(AF_INET, argv[2], &nid.address) != 1) {
		fprintf(stderr, "usage: cproxy SOCKET ADDRESS PORT\n");
		return 2;
	}
	strcpy(at.sun_path, argv[1]);
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	struct pollfd signals = {signalfd(-1, &set, SFD_CLOEXEC), POLLIN, 0};
	do {
		int err = run(&at, nid, port, signals.fd);
		if (err == EPROTO || err == EINVAL || err == ENOTUNIQ) // to try again would not help
			return 1;
	} while (poll(&signals, 1, 1000) == 0);
	return 0;
}
