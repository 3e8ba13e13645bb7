//go:build o2ib

#define _GNU_SOURCE
#include "o2.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

_Static_assert(sizeof(o2_sge) == sizeof(struct ibv_sge) && sizeof(o2_recv) == 24 && sizeof(o2_wr) == 32 && sizeof(o2_wc) == 24,
	"layouts are those of package verbs");
_Static_assert(offsetof(struct ibv_sge, length) == offsetof(o2_sge, len) && offsetof(struct ibv_sge, lkey) == offsetof(o2_sge, lkey),
	"pieces are handed on as they are");

// rdma-core is loaded when it is first needed, so that one program runs with and without it.
#undef ibv_reg_mr
#undef ibv_query_port
#define VERBS(X) X(ibv_create_comp_channel) X(ibv_destroy_comp_channel) X(ibv_create_cq) X(ibv_destroy_cq) X(ibv_get_cq_event) \
	X(ibv_ack_cq_events) X(ibv_alloc_pd) X(ibv_dealloc_pd) X(ibv_reg_mr) X(ibv_dereg_mr) X(ibv_query_device) X(ibv_query_port) \
	X(ibv_get_device_name) X(ibv_get_async_event) X(ibv_ack_async_event) X(ibv_modify_qp)
#define RDMACM(X) X(rdma_create_event_channel) X(rdma_destroy_event_channel) X(rdma_get_cm_event) X(rdma_ack_cm_event) \
	X(rdma_create_id) X(rdma_destroy_id) X(rdma_bind_addr) X(rdma_listen) X(rdma_resolve_addr) X(rdma_resolve_route) X(rdma_connect) \
	X(rdma_accept) X(rdma_reject) X(rdma_disconnect) X(rdma_notify) X(rdma_set_option) X(rdma_create_qp) X(rdma_destroy_qp) \
	X(rdma_get_src_port) X(rdma_get_dst_port)
#define DECLARE(f) static __typeof__(f) *p_##f;
#define LOAD(f) if (!(*(void **)&p_##f = dlsym(lib, #f))) return -ENOSYS;
VERBS(DECLARE) RDMACM(DECLARE)

struct o2_chan { struct rdma_event_channel *c; };
struct o2_id { struct rdma_cm_id *id; uint64_t token; };
struct o2_dev { struct ibv_context *ctx; struct ibv_pd *pd; };
struct o2_mr { struct ibv_mr *mr; };
struct o2_cq { struct ibv_cq *cq; struct ibv_comp_channel *ch; unsigned unacked; };

static atomic_int live;

int o2_live(void) { return atomic_load(&live); }

static void *make(size_t n) {
	void *p = calloc(1, n);
	if (p) atomic_fetch_add(&live, 1);
	return p;
}

static void drop(void *p) { free(p); atomic_fetch_sub(&live, 1); }

static int negative(int ret) { return ret == 0 ? 0 : ret == -1 ? -errno : -abs(ret); } // -1 and errno, or an errno

static int nonblocking(int fd) {
	int fl = fcntl(fd, F_GETFL);
	return fl < 0 || fcntl(fd, F_SETFL, fl | O_NONBLOCK) < 0 ? -errno : 0;
}

// A copy that Go may close.
static int duplicate(int fd) { int n = fcntl(fd, F_DUPFD_CLOEXEC, 3); return n < 0 ? -errno : n; }

// o2_load has one caller at a time; the libraries stay.
int o2_load(void) {
	void *lib = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_GLOBAL);
	if (!lib) return -ENOPKG;
	VERBS(LOAD)
	lib = dlopen("librdmacm.so.1", RTLD_NOW);
	if (!lib) return -ENOPKG;
	RDMACM(LOAD)
	return 0;
}

static void to_sockaddr(const o2_addr *a, struct sockaddr_storage *s) {
	memset(s, 0, sizeof *s);
	if (a->v6) {
		struct sockaddr_in6 *in6 = (void *)s;
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(a->port);
		memcpy(&in6->sin6_addr, a->ip, 16);
	} else {
		struct sockaddr_in *in = (void *)s;
		in->sin_family = AF_INET;
		in->sin_port = htons(a->port);
		memcpy(&in->sin_addr, a->ip, 4);
	}
}

static void from_sockaddr(const struct sockaddr *s, o2_addr *a) {
	if (s->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const void *)s;
		*a = (o2_addr){.port = ntohs(in6->sin6_port), .v6 = 1};
		memcpy(a->ip, &in6->sin6_addr, 16);
	} else {
		const struct sockaddr_in *in = (const void *)s;
		*a = (o2_addr){.port = ntohs(in->sin_port)};
		memcpy(a->ip, &in->sin_addr, 4);
	}
}

int o2_chan_open(o2_chan **out, int *fd) {
	o2_chan *c = make(sizeof *c);
	int err = -ENOMEM;
	if (!c) return err;
	c->c = p_rdma_create_event_channel();
	if (!c->c) { err = errno ? -errno : -ENODEV; drop(c); return err; }
	err = nonblocking(c->c->fd);
	if (!err) err = *fd = duplicate(c->c->fd);
	if (err < 0) { o2_chan_close(c); return err; }
	*out = c;
	return 0;
}

void o2_chan_close(o2_chan *c) { p_rdma_destroy_event_channel(c->c); drop(c); }

// Everything of an event is copied and the event acknowledged at once, since destroying
// an ID waits for that (o2iblnd 17.5).
int o2_chan_drain(o2_chan *c, o2_event *ev, int max, uint64_t tokens) {
	struct rdma_cm_event *e;
	int n;
	for (n = 0; n < max; n++) {
		if (p_rdma_get_cm_event(c->c, &e)) return n ? n : errno == EAGAIN || errno == EINTR ? 0 : -errno;
		o2_event *o = &ev[n];
		const struct rdma_conn_param *p = &e->param.conn;
		o2_id *id = e->id->context;
		memset(o, 0, offsetof(o2_event, priv));
		o->kind = e->event;
		o->status = e->status;
		if (e->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
			o->listener = id->token; // inherited
			id = make(sizeof *id);
			if (!id) { // the caller hears that nobody took it
				struct rdma_cm_id *fresh = e->id;
				p_rdma_ack_cm_event(e);
				p_rdma_destroy_id(fresh);
				n--;
				continue;
			}
			*id = (o2_id){.id = e->id, .token = tokens + n};
			e->id->context = id;
			o->fresh = id;
			o2_id_addrs(id, &o->local, &o->remote);
		}
		o->token = id->token;
		if (e->event == RDMA_CM_EVENT_CONNECT_REQUEST || e->event == RDMA_CM_EVENT_ESTABLISHED || e->event == RDMA_CM_EVENT_REJECTED) {
			o->retries = p->retry_count;
			o->rnr_retries = p->rnr_retry_count;
			if (p->private_data) {
				o->priv_len = p->private_data_len < sizeof o->priv ? p->private_data_len : sizeof o->priv;
				memcpy(o->priv, p->private_data, o->priv_len);
			}
		}
		p_rdma_ack_cm_event(e);
	}
	return n;
}

static int id_open(o2_chan *c, uint64_t token, o2_id **out) {
	o2_id *id = make(sizeof *id);
	if (!id) return -ENOMEM;
	id->token = token;
	int err = negative(p_rdma_create_id(c->c, &id->id, id, RDMA_PS_TCP));
	if (err) { drop(id); return err; }
	*out = id;
	return 0;
}

int o2_listen(o2_chan *c, const o2_addr *a, int backlog, uint64_t token, o2_id **out) {
	struct sockaddr_storage s;
	o2_id *id;
	int err = id_open(c, token, &id);
	if (err) return err;
	to_sockaddr(a, &s);
	err = negative(p_rdma_bind_addr(id->id, (struct sockaddr *)&s));
	if (!err && !id->id->verbs) err = -ENODEV;
	if (!err) err = negative(p_rdma_listen(id->id, backlog));
	if (err) { o2_id_destroy(id); return err; }
	*out = id;
	return 0;
}

int o2_dial(o2_chan *c, const o2_addr *src, const o2_addr *dst, int timeout_ms, int privileged, int tos, uint64_t token, o2_id **out) {
	struct sockaddr_storage s, d;
	o2_addr from = *src;
	int one = 1, err;
	uint8_t t = tos;
	o2_id *id;
	if ((err = id_open(c, token, &id))) return err;
	if (privileged) {
		err = negative(p_rdma_set_option(id->id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &one, sizeof one));
		from.port = 1023;
	}
	if (!err && tos >= 0) err = negative(p_rdma_set_option(id->id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &t, sizeof t));
	to_sockaddr(dst, &d);
	while (!err) { // the next port below if one is taken (o2iblnd 3.2)
		to_sockaddr(&from, &s);
		err = negative(p_rdma_resolve_addr(id->id, (struct sockaddr *)&s, (struct sockaddr *)&d, timeout_ms));
		if (!err) { *out = id; return 0; }
		if (err == -EADDRINUSE && from.port > 1) { err = 0; from.port--; }
	}
	o2_id_destroy(id);
	return err;
}

int o2_resolve_route(o2_id *id, int timeout_ms) { return negative(p_rdma_resolve_route(id->id, timeout_ms)); }

int o2_connect(o2_id *id, const void *priv, int len, int retries, int rnr, int accept) {
	struct rdma_conn_param p = {.private_data = priv, .private_data_len = len, .flow_control = 1, .retry_count = retries, .rnr_retry_count = rnr};
	return negative(accept ? p_rdma_accept(id->id, &p) : p_rdma_connect(id->id, &p));
}

int o2_reject(o2_id *id, const void *priv, int len) { return negative(p_rdma_reject(id->id, priv, len)); }

int o2_disconnect(o2_id *id) { return negative(p_rdma_disconnect(id->id)); }

int o2_established(o2_id *id) {
	int err = negative(p_rdma_notify(id->id, IBV_EVENT_COMM_EST));
	return err == -EISCONN ? 0 : err;
}

void o2_id_addrs(o2_id *id, o2_addr *local, o2_addr *remote) {
	from_sockaddr(&id->id->route.addr.src_addr, local);
	from_sockaddr(&id->id->route.addr.dst_addr, remote);
}

void o2_id_destroy(o2_id *id) {
	if (id->id->qp) p_rdma_destroy_qp(id->id);
	p_rdma_destroy_id(id->id);
	drop(id);
}

uintptr_t o2_id_context(o2_id *id, int *port) {
	*port = id->id->port_num;
	return (uintptr_t)id->id->verbs;
}

int o2_dev_open(o2_id *id, o2_dev **out, o2_dev_attr *a, int *fd) {
	struct ibv_device_attr v;
	struct ibv_context *ctx = id->id->verbs;
	int err = negative(p_ibv_query_device(ctx, &v));
	if (!err) err = nonblocking(ctx->async_fd);
	if (err) return err;
	*a = (o2_dev_attr){.max_memory = v.max_mr_size, .ports = v.phys_port_cnt, .max_qp = v.max_qp, .max_wr = v.max_qp_wr, .max_sge = v.max_sge,
		.max_cq = v.max_cq, .max_cqe = v.max_cqe, .max_mr = v.max_mr, .vectors = ctx->num_comp_vectors};
	strncpy(a->name, p_ibv_get_device_name(ctx->device), sizeof a->name - 1);
	o2_dev *d = make(sizeof *d);
	if (!d) return -ENOMEM;
	d->ctx = ctx;
	d->pd = p_ibv_alloc_pd(ctx);
	err = d->pd ? *fd = duplicate(ctx->async_fd) : -errno;
	if (err < 0) {
		if (d->pd) p_ibv_dealloc_pd(d->pd);
		drop(d);
		return err;
	}
	*out = d;
	return 0;
}

int o2_dev_close(o2_dev *d) {
	int err = negative(p_ibv_dealloc_pd(d->pd));
	if (!err) drop(d);
	return err;
}

int o2_dev_drain(o2_dev *d, o2_async *ev, int max) {
	struct ibv_async_event e;
	int n;
	for (n = 0; n < max; n++) {
		if (p_ibv_get_async_event(d->ctx, &e)) return n ? n : errno == EAGAIN || errno == EINTR ? 0 : -errno;
		ev[n] = (o2_async){.kind = e.event_type};
		switch (e.event_type) {
		case IBV_EVENT_QP_FATAL: case IBV_EVENT_QP_REQ_ERR: case IBV_EVENT_QP_ACCESS_ERR: case IBV_EVENT_COMM_EST:
		case IBV_EVENT_SQ_DRAINED: case IBV_EVENT_PATH_MIG: case IBV_EVENT_PATH_MIG_ERR: case IBV_EVENT_QP_LAST_WQE_REACHED:
			ev[n].qpn = e.element.qp->qp_num;
			break;
		case IBV_EVENT_PORT_ACTIVE: case IBV_EVENT_PORT_ERR: case IBV_EVENT_LID_CHANGE: case IBV_EVENT_PKEY_CHANGE:
		case IBV_EVENT_SM_CHANGE: case IBV_EVENT_CLIENT_REREGISTER: case IBV_EVENT_GID_CHANGE:
			ev[n].port = e.element.port_num;
			break;
		default:
			break;
		}
		p_ibv_ack_async_event(&e);
	}
	return n;
}

int o2_dev_port(o2_dev *d, int port, o2_port *p) {
	struct ibv_port_attr a;
	memset(&a, 0, sizeof a);
	int err = negative(p_ibv_query_port(d->ctx, port, (void *)&a));
	if (err) return err;
	*p = (o2_port){.state = a.state, .mtu = a.active_mtu ? 128u << a.active_mtu : 0, .ethernet = a.link_layer == IBV_LINK_LAYER_ETHERNET};
	return 0;
}

int o2_mem_reg(o2_dev *d, uintptr_t addr, size_t len, int access, o2_mr **out, uint32_t *lkey, uint32_t *rkey) {
	o2_mr *m = make(sizeof *m);
	if (!m) return -ENOMEM;
	m->mr = p_ibv_reg_mr(d->pd, (void *)addr, len, access);
	if (!m->mr) { int err = -errno; drop(m); return err; }
	*lkey = m->mr->lkey;
	*rkey = m->mr->rkey;
	*out = m;
	return 0;
}

int o2_mem_unreg(o2_mr *m) {
	int err = negative(p_ibv_dereg_mr(m->mr));
	if (!err) drop(m);
	return err;
}

int o2_cq_open(o2_dev *d, int entries, int vector, o2_cq **out, int *fd, int *got) {
	o2_cq *q = make(sizeof *q);
	int err = -ENOMEM;
	if (!q) return err;
	if ((q->ch = p_ibv_create_comp_channel(d->ctx)) && (q->cq = p_ibv_create_cq(d->ctx, entries, NULL, q->ch, vector)) &&
	    !(err = nonblocking(q->ch->fd)) && (err = *fd = duplicate(q->ch->fd)) >= 0) {
		*got = q->cq->cqe;
		*out = q;
		return 0;
	}
	if (!q->cq) err = errno ? -errno : -ENOMEM;
	if (q->cq) p_ibv_destroy_cq(q->cq);
	if (q->ch) p_ibv_destroy_comp_channel(q->ch);
	drop(q);
	return err;
}

static uint64_t nanos(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static int harvest(o2_cq *q, o2_wc *out, int max) {
	struct ibv_wc wc[64];
	int n = ibv_poll_cq(q->cq, max < 64 ? max : 64, wc);
	for (int i = 0; i < n; i++)
		out[i] = (o2_wc){.wr_id = wc[i].wr_id, .qpn = wc[i].qp_num, .bytes = wc[i].byte_len, .status = wc[i].status, .op = wc[i].opcode, .vendor = wc[i].vendor_err};
	return n < 0 ? -EIO : n;
}

// A notification that came meanwhile is taken before the queue is armed, so that the file descriptor
// becomes readable only for what comes later.
int o2_cq_poll(o2_cq *q, o2_wc *out, int max, int arm, uint64_t spin_ns) {
	enum { ackBatch = 64 };
	struct ibv_cq *cq;
	void *ctx;
	int n = harvest(q, out, max), err;
	for (uint64_t end = n == 0 && spin_ns ? nanos() + spin_ns : 0; n == 0 && end && nanos() < end;) n = harvest(q, out, max);
	if (n || !arm) return n;
	while (!p_ibv_get_cq_event(q->ch, &cq, &ctx)) q->unacked++;
	if (errno != EAGAIN && errno != EINTR) return -errno;
	if (q->unacked >= ackBatch) { p_ibv_ack_cq_events(q->cq, q->unacked); q->unacked = 0; }
	if ((err = negative(ibv_req_notify_cq(q->cq, 0)))) return err;
	return harvest(q, out, max);
}

int o2_cq_close(o2_cq *q) {
	p_ibv_ack_cq_events(q->cq, q->unacked);
	q->unacked = 0;
	int err = negative(p_ibv_destroy_cq(q->cq));
	if (err) return err;
	p_ibv_destroy_comp_channel(q->ch);
	drop(q);
	return 0;
}

int o2_qp_create(o2_id *id, o2_dev *d, o2_cq *q, o2_qp *z) {
	struct ibv_qp_init_attr a = {.send_cq = q->cq, .recv_cq = q->cq, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = z->sends, .max_recv_wr = z->recvs, .max_send_sge = z->pieces, .max_recv_sge = 1, .max_inline_data = z->inline_max}};
	int err = negative(p_rdma_create_qp(id->id, d->pd, &a));
	if (!err) *z = (o2_qp){a.cap.max_send_wr, a.cap.max_recv_wr, a.cap.max_send_sge, a.cap.max_inline_data, id->id->qp->qp_num};
	return err;
}

int o2_qp_fail(o2_id *id) {
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_ERR};
	return id->id->qp ? negative(p_ibv_modify_qp(id->id->qp, &a, IBV_QP_STATE)) : -EINVAL;
}

// Chains are built on the stack, as many links at a time as it is sure to have room for.
int o2_post(o2_id *id, const o2_recv *r, int nr, const o2_wr *w, int nw, const o2_sge *s, int *done_r, int *done_w) {
	enum { links = 64 };
	struct ibv_qp *qp = id->id->qp;
	struct ibv_recv_wr rs[links], *bad_r;
	struct ibv_send_wr ws[links], *bad_w;
	struct ibv_sge piece[links];
	int err;
	if (!qp) return -EINVAL;
	while (*done_r < nr) {
		int n = nr - *done_r < links ? nr - *done_r : links;
		for (int i = 0; i < n; i++, r++) {
			piece[i] = (struct ibv_sge){r->addr, r->len, r->lkey};
			rs[i] = (struct ibv_recv_wr){.wr_id = r->wr_id, .next = i + 1 < n ? &rs[i + 1] : NULL, .sg_list = &piece[i], .num_sge = 1};
		}
		if ((err = negative(ibv_post_recv(qp, rs, &bad_r)))) { *done_r += bad_r - rs; return err; }
		*done_r += n;
	}
	while (*done_w < nw) {
		int n = nw - *done_w < links ? nw - *done_w : links;
		for (int i = 0; i < n; i++, w++) {
			ws[i] = (struct ibv_send_wr){.wr_id = w->wr_id, .next = i + 1 < n ? &ws[i + 1] : NULL, .sg_list = (struct ibv_sge *)(uintptr_t)(s + w->first), .num_sge = w->count,
				.opcode = w->op ? IBV_WR_RDMA_WRITE : IBV_WR_SEND, .send_flags = (w->flags & 1 ? IBV_SEND_SIGNALED : 0) | (w->flags & 2 ? IBV_SEND_INLINE : 0),
				.wr.rdma = {w->raddr, w->rkey}};
		}
		if ((err = negative(ibv_post_send(qp, ws, &bad_w)))) { *done_w += bad_w - ws; return err; }
		*done_w += n;
	}
	return 0;
}
