//go:build ignore
// (so that Go leaves this file alone)

// The network of cproxy.c: examples/udplnd describes its datagrams. Two nodes have one link with each other. The sender
// repeats a datagram of it until the receiver acknowledges it, and then sends the next one.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "cproxy.h"

enum { HELLO = 0x4c4e4400, RESET, HEADER, DATA, ACK };
enum { FRAGMENT = 8192, MAX_PEERS = 256, MAX_BATCH = 64 };
static const int64_t SECOND = 1000000000, TICK = 50000000;

struct datagram { uint32_t kind; uint64_t from, to, incarnation, number; } __attribute__((packed)); // big endian

struct message { struct message *next; struct entry send; };

struct peer {
	uint32_t address;
	uint64_t incarnation;                     // 0: unknown
	struct message *out;                      // to be sent; the first one is being sent if the link is open
	int64_t heard, since;                     // time of the last datagram; or, if later, when messages began to wait
	uint64_t local, remote, number, expected; // IDs of the link (local 0: none); the next numbers to send and to receive
	bool open;                                // the peer knows our ID
	int64_t offset;                           // in the payload of the first message; below 0 until its header is acknowledged
	struct arrival *in;                       // is being received
	bool waits;                               // the next message, with this header, waits for memory
	struct header header;
};

struct udp {
	struct lnetd *lnetd;
	struct nid nid;
	int fd;
	uint16_t port; // big endian
	uint64_t incarnation, dropped;
	int64_t watched, printed;
	int count;
	struct peer peers[MAX_PEERS];
};

const struct reason broken = {7, 8, 5, "the peer broke the protocol"}, disconnected = {5, 3, 6, "disconnected"};
static const struct reason timed_out = {10, 8, 4, "no answer within the LND timeout"}, reset = {10, 8, 6, "the peer closed the link"},
	closing = {5, 3, 1, "the proxy ends"}, no_peer = {8, 8, 2, "the NID is not one of this net, or there are too many peers"};

static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * SECOND + t.tv_nsec;
}

static uint64_t random_id(void)
{
	uint64_t id = 0;
	while (getrandom(&id, sizeof id, 0) != sizeof id || id == 0)
		;
	return id;
}

// drop prints why a datagram was dropped, but at most once in a second, since anyone can send them.
static void drop(struct udp *u, uint32_t address, const char *why)
{
	u->dropped++;
	if (u->printed != 0 && now() - u->printed < SECOND)
		return;
	u->printed = now();
	fprintf(stderr, "cproxy: dropped a datagram from %s: %s; %llu dropped until now\n", inet_ntoa((struct in_addr){address}), why,
		(unsigned long long)u->dropped);
}

static struct nid nid_at(const struct udp *u, uint32_t address)
{
	struct nid n = u->nid;
	n.address = address;
	return n;
}

static void transmit(const struct udp *u, const struct peer *p, uint32_t kind, uint64_t number, const void *payload, size_t length)
{
	struct datagram d = {htobe32(kind), htobe64(p->local), htobe64(p->remote), htobe64(u->incarnation), htobe64(number)};
	struct iovec v[] = {{&d, sizeof d}, {(void *)(uintptr_t)payload, length}};
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = u->port, .sin_addr.s_addr = p->address};
	(void)!sendmsg(u->fd, &(struct msghdr){.msg_name = &to, .msg_namelen = sizeof to, .msg_iov = v, .msg_iovlen = 2}, 0); // may be lost
}

// transmit_next sends the datagram that the peer must acknowledge next.
static void transmit_next(const struct udp *u, const struct peer *p)
{
	if (!p->out)
		return;
	const struct entry *m = &p->out->send;
	int64_t rest = m->length - p->offset;
	if (!p->open)
		transmit(u, p, HELLO, 0, NULL, 0);
	else if (p->offset < 0)
		transmit(u, p, HEADER, p->number, &m->header, sizeof m->header);
	else
		transmit(u, p, DATA, p->number, payload_of(u->lnetd, m) + p->offset, rest < FRAGMENT ? rest : FRAGMENT);
}

static struct peer *find(struct udp *u, uint32_t address)
{
	for (struct peer *p = u->peers; p < u->peers + u->count; p++)
		if (p->address == address)
			return p;
	return NULL;
}

// begin returns the peer with this address, and makes a link if the peer has none. If the table is full, it forgets a peer
// without a link, or one that has called and never answered. It returns NULL if it can forget none.
static struct peer *begin(struct udp *u, uint32_t address)
{
	struct peer *p = find(u, address);
	if (!p && u->count < MAX_PEERS)
		p = &u->peers[u->count++];
	for (struct peer *q = u->peers; !p && q < u->peers + u->count; q++)
		if (!q->open && !q->out)
			p = q;
	if (p && p->address != address)
		*p = (struct peer){.address = address};
	if (p && p->local == 0) {
		p->local = random_id();
		p->since = now();
		p->offset = -FRAGMENT;
	}
	return p;
}

// end ends the link and its messages.
static void end(struct udp *u, struct peer *p, const struct reason *why)
{
	struct entry e = {.peer = nid_at(u, p->address), .time = p->heard};
	transmit(u, p, RESET, 0, NULL, 0);
	if (p->open)
		report(u->lnetd, (struct entry){.op = LOST, .peer = e.peer});
	if ((p->open || p->out) && why != &disconnected && why != &closing) {
		e.op = PEER_DOWN;
		report_failed(u->lnetd, e, why->seen, why);
	}
	bool seen = p->open; // the first message
	for (struct message *m; (m = p->out); seen = false) {
		report_failed(u->lnetd, (struct entry){.op = SENT, .handle = m->send.handle}, seen ? why->seen : why->unseen, why);
		p->out = m->next;
		free(m);
	}
	if (p->in)
		p->in->used = false;
	*p = (struct peer){.address = p->address, .incarnation = p->incarnation, .heard = p->heard};
}

static void acknowledged(struct udp *u, struct peer *p, uint64_t number)
{
	struct message *m = p->out;
	if (!m || number != p->number + 1)
		return;
	p->number++;
	p->offset += FRAGMENT;
	if (p->offset >= m->send.length) {
		report(u->lnetd, (struct entry){.op = SENT, .handle = m->send.handle});
		p->out = m->next;
		p->offset = -FRAGMENT;
		free(m);
	}
	transmit_next(u, p);
}

// advance makes the peer send the next part, and reports the message if this part was its last.
static void advance(struct udp *u, struct peer *p)
{
	p->expected++;
	if (p->in->received == p->in->header.length) {
		report_arrival(u->lnetd, p->in);
		p->in = NULL;
	}
}

// accept_header accepts the header of a message if there is memory for its payload.
static void accept_header(struct udp *u, struct peer *p)
{
	p->in = begin_arrival(u->lnetd, nid_at(u, p->address), &p->header);
	p->waits = !p->in;
	if (p->in)
		advance(u, p);
}

// receive_part receives a header, or a part of the payload. It returns false if the peer broke the protocol.
static bool receive_part(struct udp *u, struct peer *p, uint32_t kind, const uint8_t *b, size_t length)
{
	if (kind == HEADER) {
		if (p->in || length != sizeof p->header)
			return false;
		memcpy(&p->header, b, sizeof p->header);
		if (!is_valid(&p->header))
			return false;
		accept_header(u, p);
	} else {
		if (!p->in || length > p->in->header.length - p->in->received)
			return false;
		memcpy(p->in->payload + p->in->received, b, length);
		p->in->received += length;
		advance(u, p);
	}
	return true;
}

// receive processes a datagram of the link.
static void receive(struct udp *u, struct peer *p, const struct datagram *d, const uint8_t *b, size_t length)
{
	if (d->kind == RESET && !p->open) { // it has lost what we know of it: call it again
		p->remote = 0;
		return;
	}
	if (d->kind == RESET || !p->open) {
		if (p->incarnation != 0 && p->incarnation != d->incarnation)
			report(u->lnetd, (struct entry){.op = RESTARTED, .peer = nid_at(u, p->address)});
		p->incarnation = d->incarnation;
	}
	if (d->kind == RESET) {
		end(u, p, &reset);
		return;
	}
	if (!p->open) {
		p->open = true;
		transmit_next(u, p);
	}
	p->heard = p->since = now();
	if (d->kind == ACK)
		acknowledged(u, p, d->number);
	else if (d->kind != HELLO && d->number == p->expected && !receive_part(u, p, d->kind, b, length))
		end(u, p, &broken);
	else
		transmit(u, p, ACK, p->expected, NULL, 0);
}

// handle processes a datagram of a link, or one that calls, or one of a link that we do not have.
static void handle(struct udp *u, uint32_t address, const struct datagram *d, const uint8_t *b, size_t length)
{
	struct peer *p = find(u, address);
	if (p && p->local != 0 && d->to == p->local && (p->remote == 0 || d->from == p->remote)) {
		p->remote = d->from;
		receive(u, p, d, b, length);
	} else if (d->kind == HELLO && d->to == 0) {
		p = begin(u, address);
		if (!p) {
			drop(u, address, "there are too many peers");
			return;
		}
		if (!p->open)
			p->remote = d->from;
		transmit(u, p, HELLO, 0, NULL, 0);
	} else if (d->kind != RESET) {
		transmit(u, &(struct peer){.address = address, .local = d->to, .remote = d->from}, RESET, 0, NULL, 0);
	}
}

void udp_receive(struct udp *u)
{
	static uint8_t b[65536];
	struct sockaddr_in from;
	for (int k = 0; k < MAX_BATCH; k++) {
		ssize_t n = recvfrom(u->fd, b, sizeof b, 0, (struct sockaddr *)&from, &(socklen_t){sizeof from});
		if (n < 0)
			return;
		struct datagram d = {0};
		uint32_t address = from.sin_addr.s_addr;
		if (n >= (ssize_t)sizeof d)
			memcpy(&d, b, sizeof d);
		d = (struct datagram){be32toh(d.kind), be64toh(d.from), be64toh(d.to), be64toh(d.incarnation), be64toh(d.number)};
		if (n < (ssize_t)sizeof d || d.kind < HELLO || d.kind > ACK)
			drop(u, address, "it is not one of LNet");
		else if (from.sin_port != u->port || address == u->nid.address)
			drop(u, address, "it does not come from a peer");
		else
			handle(u, address, &d, b + sizeof d, n - sizeof d);
	}
}

int udp_watch(struct udp *u, int64_t timeout)
{
	int next = -1;
	bool due = now() - u->watched >= TICK;
	for (struct peer *p = u->peers; p < u->peers + u->count; p++) {
		if (p->local == 0)
			continue;
		next = TICK / 1000000;
		int64_t silent = now() - p->since;
		if (silent > 2 * timeout || (silent > timeout && p->out)) {
			end(u, p, &timed_out);
		} else if (due) {
			transmit_next(u, p);
			if (p->open && silent > timeout / 4)
				transmit(u, p, HELLO, 0, NULL, 0);
		}
	}
	if (due)
		u->watched = now();
	return next;
}

struct udp *udp_open(struct lnetd *l, struct nid nid, uint16_t port, int *fd)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = nid.address};
	struct udp *u = calloc(1, sizeof *u);
	if (!u)
		abort();
	*u = (struct udp){.lnetd = l, .nid = nid, .port = htons(port), .incarnation = random_id()};
	u->fd = *fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (bind(u->fd, (struct sockaddr *)&at, sizeof at) == 0)
		return u;
	fprintf(stderr, "cproxy: UDP port %d of %s: %s\n", port, inet_ntoa(at.sin_addr), strerror(errno));
	udp_close(u);
	return NULL;
}

void udp_close(struct udp *u)
{
	for (struct peer *p = u->peers; p < u->peers + u->count; p++)
		if (p->local != 0)
			end(u, p, &closing);
	close(u->fd);
	free(u);
}

void udp_send(struct udp *u, const struct entry *send)
{
	struct nid to = nid_at(u, send->peer.address);
	struct peer *p = memcmp(&to, &send->peer, sizeof to) == 0 ? begin(u, to.address) : NULL;
	if (!p) {
		report_failed(u->lnetd, (struct entry){.op = PEER_DOWN, .peer = send->peer}, no_peer.seen, &no_peer);
		report_failed(u->lnetd, (struct entry){.op = SENT, .handle = send->handle}, no_peer.unseen, &no_peer);
		return;
	}
	struct message *m = malloc(sizeof *m), **at = &p->out;
	if (!m)
		abort();
	if (*at && p->open) // is being sent
		at = &(*at)->next;
	while (*at && (!(send->flags & URGENT) || (*at)->send.flags & URGENT))
		at = &(*at)->next;
	*m = (struct message){*at, *send};
	*at = m;
	if (p->out == m && !m->next) {
		p->since = now();
		transmit_next(u, p);
	}
}

void udp_resume(struct udp *u)
{
	for (struct peer *p = u->peers; p < u->peers + u->count; p++) {
		if (!p->waits)
			continue;
		accept_header(u, p);
		if (!p->waits)
			transmit(u, p, ACK, p->expected, NULL, 0);
	}
}

void udp_recall(struct udp *u, uint64_t handle)
{
	static const struct reason recalled = {1, 1, 3, "recalled"};
	for (struct peer *p = u->peers; p < u->peers + u->count; p++) {
		struct message **at = &p->out;
		if (*at && p->open) // is being sent
			at = &(*at)->next;
		while (*at && (*at)->send.handle != handle)
			at = &(*at)->next;
		struct message *m = *at;
		if (m) {
			report_failed(u->lnetd, (struct entry){.op = SENT, .handle = handle}, recalled.unseen, &recalled);
			*at = m->next;
			free(m);
		}
	}
}

void udp_end(struct udp *u, struct nid nid, const struct reason *why)
{
	struct peer *p = find(u, nid.address);
	if (p && p->local != 0)
		end(u, p, why);
}
