// The control socket: records, requests, and what lnetd sends without a request.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "internal.h"

void lni_close_fds(int fds[MOST_FDS])
{
	for (int i = 0; i < MOST_FDS; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
		fds[i] = -1;
	}
}

// descriptors moves those of a message to fds. It returns false if there are more, or other things. With MSG_CTRUNC there
// may be fewer than lnetd has sent, because the process has too many open files.
static bool descriptors(struct msghdr *m, int fds[MOST_FDS])
{
	bool good = true;
	int n = 0;
	for (struct cmsghdr *h = CMSG_FIRSTHDR(m); h; h = CMSG_NXTHDR(m, h)) {
		if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS) {
			good = false;
			continue;
		}
		for (size_t at = 0; CMSG_LEN(at + sizeof(int)) <= h->cmsg_len; at += sizeof(int)) {
			int fd;
			memcpy(&fd, CMSG_DATA(h) + at, sizeof fd);
			if (n < MOST_FDS) {
				fds[n++] = fd;
			} else {
				close(fd);
				good = false;
			}
		}
	}
	return good && !(m->msg_flags & MSG_TRUNC) && (n < MOST_FDS || !(m->msg_flags & MSG_CTRUNC));
}

// receive reads one record into d->record, with the descriptors that come with it. It returns false if there is none;
// then the connection may have ended.
static bool receive(lnetd *d, int fds[MOST_FDS])
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE((MOST_FDS + 1) * sizeof(int))];
	} control;
	struct iovec v = { d->record, sizeof d->record };
	struct msghdr m;
	ssize_t n;
	int again = 0; // Linux may report the end although a record has arrived
	for (;;) {
		fds[0] = fds[1] = fds[2] = -1;
		m = (struct msghdr){ .msg_iov = &v, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };
		n = recvmsg(d->socket, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return false;
		if (n > 0)
			break;
		if (n == 0 && !descriptors(&m, fds))
			again = 2;
		lni_close_fds(fds);
		if (++again < 3)
			continue;
		lni_end(d, EPIPE, "lnetd has closed the connection without a reason: it has died");
		atomic_store(&d->over, true);
		return false;
	}
	struct wire_header h = { 0 };
	bool good = descriptors(&m, fds);
	if ((size_t)n >= sizeof h)
		memcpy(&h, d->record, sizeof h);
	if (!good || h.magic != RECORD_MAGIC || h.version != 1 || h.length != (size_t)n || h.zero != 0 || h.status > 0 || h.status < -4095) {
		lni_close_fds(fds);
		lni_break(d, EPROTO, "lnetd has sent an invalid record");
		return false;
	}
	d->descriptors_lost = m.msg_flags & MSG_CTRUNC;
	atomic_store(&d->heard, lni_now());
	return true;
}

// notice processes a record without a request.
static void notice(lnetd *d, size_t length)
{
	struct wire_notice n;
	char text[REASON_SIZE];
	if (length < 8 || length > sizeof n) {
		lni_break(d, EPROTO, "lnetd has sent an invalid notice");
		return;
	}
	memcpy(&n, d->record + sizeof(struct wire_header), length);
	lni_printable(text, n.text, length - 8);
	if (n.kind == NOTICE_CUT_OFF) {
		lni_end(d, n.value < 0 && n.value >= -4095 ? -n.value : ESHUTDOWN, "lnetd has ended the connection: %s", text);
	} else if (n.kind == NOTICE_ENDING) {
		int64_t seconds = n.value < 0 ? 0 : n.value;
		atomic_store(&d->ending, lni_now() + seconds * 1000000000);
	} else if (n.kind == NOTICE_DESCRIPTORS && n.value > 0 && n.value <= 64) {
		atomic_store(&d->descriptor_size, (uint32_t)n.value);
	}
}

// unasked processes the record in d->record if it is a notice, or the reply to a NOP of lnetd_wait.
static bool unasked(lnetd *d, const int fds[MOST_FDS])
{
	struct wire_header h;
	memcpy(&h, d->record, sizeof h);
	if (fds[0] >= 0)
		return false;
	if (h.opcode == OP_NOTICE) {
		if (h.status != 0 || h.sequence != 0)
			return false;
		notice(d, h.length - sizeof h);
		return true;
	}
	if (h.opcode != OP_NOP || d->nop_sequence == 0 || h.sequence != d->nop_sequence)
		return false;
	d->nop_sequence = 0;
	atomic_store(&d->asked, 0);
	return true;
}

void lni_hear(lnetd *d)
{
	int fds[MOST_FDS];
	for (int n = 0; n < MOST_UNASKED && !atomic_load(&d->over) && receive(d, fds); n++) {
		if (!unasked(d, fds)) {
			lni_close_fds(fds);
			lni_break(d, EPROTO, "lnetd has sent a reply to nothing");
		}
	}
}

bool lni_try_hear(lnetd *d)
{
	if (pthread_mutex_trylock(&d->request) != 0)
		return false;
	lni_hear(d);
	pthread_mutex_unlock(&d->request);
	return true;
}

// transmit sends a request and returns its sequence, or 0 if it cannot be sent: then the socket shows the reason, or is
// full.
static uint32_t transmit(lnetd *d, enum opcode opcode, const void *body, size_t length, int fd)
{
	if (++d->sequence == 0)
		++d->sequence;
	struct wire_header h = { RECORD_MAGIC, 1, (uint16_t)opcode, (uint32_t)(sizeof h + length), d->sequence, 0, 0 };
	struct iovec v[2] = { { &h, sizeof h }, { (void *)(uintptr_t)body, length } };
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct msghdr m = { .msg_iov = v, .msg_iovlen = length ? 2 : 1 };
	if (fd >= 0) {
		memset(&control, 0, sizeof control);
		m.msg_control = &control;
		m.msg_controllen = sizeof control;
		control.head = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
		memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
	}
	ssize_t n;
	do
		n = sendmsg(d->socket, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno != EPIPE && errno != ECONNRESET)
		return 0;
	return d->sequence; // if lnetd is gone, the socket shows it
}

int lni_send_nop(lnetd *d)
{
	if (pthread_mutex_trylock(&d->request) != 0)
		return 0; // lnetd has a request to answer
	if (d->nop_sequence == 0 && !atomic_load(&d->error)) {
		d->nop_sequence = transmit(d, OP_NOP, NULL, 0, -1);
		atomic_store(&d->asked, lni_now());
	}
	pthread_mutex_unlock(&d->request);
	return 0;
}

// await waits until the socket is readable, and ends the connection if lnetd is silent for too long.
static void await(lnetd *d, int64_t since)
{
	struct pollfd p = { .fd = d->socket, .events = POLLIN };
	int64_t patience = atomic_load(&d->patience), heard = atomic_load(&d->heard);
	int64_t left = patience - (lni_now() - (heard > since ? heard : since)) / 1000000;
	int n = poll(&p, 1, left > 0 ? (int)left : 0);
	if (n == 0 && left <= 0)
		lni_break(d, ETIMEDOUT, "lnetd does not answer; the connection was closed");
}

// answer processes the record in d->record as the reply to a request.
static int answer(lnetd *d, enum opcode opcode, size_t size, struct reply *reply)
{
	struct wire_header h;
	char text[REASON_SIZE];
	memcpy(&h, d->record, sizeof h);
	reply->body = d->record + sizeof h;
	reply->length = h.length - sizeof h;
	bool fds = opcode == OP_TM_START && h.status == 0;
	if (fds && d->descriptors_lost) {
		lni_close_fds(reply->fds);
	} else if ((reply->fds[MOST_FDS - 1] >= 0) != fds || (reply->fds[0] >= 0) != fds) {
		lni_close_fds(reply->fds);
		lni_break(d, EPROTO, "lnetd has sent a wrong number of descriptors");
		return lni_ended(d);
	}
	if (h.status != 0) {
		lni_printable(text, (const char *)reply->body, reply->length);
		return lni_fail(h.status, "lnetd: %s", text);
	}
	if (size != ANY_SIZE && reply->length != size) {
		lni_close_fds(reply->fds);
		lni_break(d, EPROTO, "lnetd has sent a reply of a wrong length");
		return lni_ended(d);
	}
	return 0;
}

int lni_request(lnetd *d, enum opcode opcode, const void *body, size_t length, int fd, size_t size, struct reply *reply)
{
	uint32_t sequence;
	int64_t since = lni_now();
	int others = 0; // records that are no reply
	while ((sequence = transmit(d, opcode, body, length, fd)) == 0) {
		int e = errno;
		if (e != EAGAIN)
			return lni_fail(e, "send a request to lnetd: %s", strerror(e));
		await(d, since); // at most a NOP is unanswered, so lnetd does not read
		lni_hear(d);
		if (++others > MOST_UNASKED)
			lni_break(d, EPROTO, "lnetd sends notices, and does not read a request");
		if (atomic_load(&d->error))
			return lni_ended(d);
	}
	for (;;) {
		if (receive(d, reply->fds)) {
			struct wire_header h;
			memcpy(&h, d->record, sizeof h);
			if (h.opcode == opcode && h.sequence == sequence)
				return answer(d, opcode, size, reply);
			if (!unasked(d, reply->fds)) {
				lni_close_fds(reply->fds);
				lni_break(d, EPROTO, "lnetd has sent a reply to nothing");
			} else if (++others > MOST_UNASKED) {
				lni_break(d, EPROTO, "lnetd sends notices, and no reply to a request");
			}
		} else if (!atomic_load(&d->over)) {
			await(d, since);
		}
		if (atomic_load(&d->error)) // after a notice unanswered requests get no reply
			return lni_ended(d);
	}
}
