//go:build o2ib

#define _GNU_SOURCE
#include "o2.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

_Static_assert(sizeof(o2_sge) == sizeof(struct ibv_sge) && offsetof(struct ibv_sge, length) == offsetof(o2_sge, len) &&
	offsetof(struct ibv_sge, lkey) == offsetof(o2_sge, lkey), "pieces are handed on as they are");
_Static_assert(sizeof(void *) == sizeof(uint64_t), "an ID's context holds its token");

// rdma-core is loaded when it is first needed, so that one program runs with and without it.
#undef ibv_reg_mr
#undef ibv_query_port
#define VERBS(X) X(ibv_create_comp_channel) X(ibv_destroy_comp_channel) X(ibv_create_cq) X(ibv_destroy_cq) X(ibv_get_cq_event) \
	X(ibv_ack_cq_events) X(ibv_alloc_pd) X(ibv_dealloc_pd) X(ibv_reg_mr) X(ibv_dereg_mr) X(ibv_query_device) X(ibv_query_port) \
	X(ibv_get_device_name) X(ibv_get_async_event) X(ibv_ack_async_event) X(ibv_modify_qp)
#define RDMACM(X) X(rdma_create_event_channel) X(rdma_destroy_event_channel) X(rdma_get_cm_event) X(rdma_ack_cm_event) \
	X(rdma_create_id) X(rdma_destroy_id) X(rdma_bind_addr) X(rdma_listen) X(rdma_resolve_addr) X(rdma_resolve_route) X(rdma_connect) \
	X(rdma_accept) X(rdma_reject) X(rdma_disconnect) X(rdma_notify) X(rdma_set_option) X(rdma_create_qp) X(rdma_destroy_qp)
#define DECLARE(f) static __typeof__(f) *p_##f;
#define LOAD(f) if (!(*(void **)&p_##f = dlsym(lib, #f))) return -ENOSYS;
VERBS(DECLARE) RDMACM(DECLARE)

int o2_load(void) {
	void *lib = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_GLOBAL);
	if (!lib) return -ENOPKG;
	VERBS(LOAD)
	if (!(lib = dlopen("librdmacm.so.1", RTLD_NOW))) return -ENOPKG;
	RDMACM(LOAD)
	return 0;
}

static atomic_int live;

int o2_live(void) { return atomic_load(&live); }

// What the libraries return is 0, -1 with errno set, or an errno.
static int negative(int ret) { return ret == 0 ? 0 : ret == -1 ? -errno : -abs(ret); }

static int counted(int by, int ret) {
	ret = negative(ret);
	if (!ret) atomic_fetch_add(&live, by);
	return ret;
}

// watchable makes fd non-blocking, and a copy of it that Go may wait at and close.
static int watchable(int fd) {
	int n = fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	if (!n) n = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	return n < 0 ? -errno : n;
}

int o2_chan_open(o2_chan **out) {
	if (!(*out = p_rdma_create_event_channel())) return errno ? -errno : -ENODEV;
	int fd = watchable((*out)->fd);
	atomic_fetch_add(&live, 1);
	if (fd < 0) o2_chan_close(*out);
	return fd;
}

int o2_chan_close(o2_chan *c) { p_rdma_destroy_event_channel(c); return counted(-1, 0); }

// Everything of an event is copied and the event acknowledged at once, since destroying an ID waits
// for that (o2iblnd 17.5).
int o2_chan_drain(o2_chan *c, o2_event *ev, int max, uint64_t tokens) {
	struct rdma_cm_event *e;
	int n;
	for (n = 0; n < max; n++, ev++) {
		if (p_rdma_get_cm_event(c, &e)) return n ? n : errno == EAGAIN || errno == EINTR ? 0 : -errno;
		*ev = (o2_event){.kind = e->event, .status = e->status, .token = (uint64_t)e->id->context};
		if (e->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
			ev->listener = ev->token; // inherited
			e->id->context = (void *)(ev->token = tokens + n);
			ev->fresh = e->id;
			atomic_fetch_add(&live, 1);
		}
		if (e->event == RDMA_CM_EVENT_CONNECT_REQUEST || e->event == RDMA_CM_EVENT_ESTABLISHED || e->event == RDMA_CM_EVENT_REJECTED) {
			ev->retries = e->param.conn.retry_count;
			ev->rnr_retries = e->param.conn.rnr_retry_count;
			if (e->param.conn.private_data) ev->priv_len = e->param.conn.private_data_len < sizeof ev->priv ? e->param.conn.private_data_len : sizeof ev->priv;
			if (ev->priv_len) memcpy(ev->priv, e->param.conn.private_data, ev->priv_len);
		}
		p_rdma_ack_cm_event(e);
	}
	return n;
}

int o2_listen(o2_chan *c, o2_addr *a, int backlog, uint64_t token, o2_id **out) {
	int err = counted(1, p_rdma_create_id(c, out, (void *)token, RDMA_PS_TCP));
	if (err) return err;
	err = negative(p_rdma_bind_addr(*out, (void *)a));
	if (!err && !(*out)->verbs) err = -ENODEV;
	if (!err && backlog) err = negative(p_rdma_listen(*out, backlog));
	if (err) o2_id_destroy(*out);
	return err;
}

o2_id *o2_dev_anchor(o2_id *id) {
	struct sockaddr_storage a = id->route.addr.src_storage;
	((struct sockaddr_in *)&a)->sin_port = 0; // where sockaddr_in6 has it, too
	return o2_listen(id->channel, (void *)&a, 0, 0, &id) ? NULL : id;
}

int o2_dial(o2_chan *c, o2_addr *src, o2_addr *dst, int timeout_ms, bool privileged, int tos, uint64_t token, o2_id **out) {
	int one = 1, port = privileged ? 1023 : 0, err = counted(1, p_rdma_create_id(c, out, (void *)token, RDMA_PS_TCP));
	uint8_t t = tos;
	if (err) return err;
	if (privileged) err = negative(p_rdma_set_option(*out, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &one, sizeof one));
	if (!err && tos >= 0) err = negative(p_rdma_set_option(*out, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &t, sizeof t));
	for (; !err; port--) { // the next port below if one is taken (o2iblnd 3.2)
		((struct sockaddr_in *)src)->sin_port = htons(port); // where sockaddr_in6 has it, too
		err = negative(p_rdma_resolve_addr(*out, (void *)src, (void *)dst, timeout_ms));
		if (!err) return 0;
		if (port > 1 && (err == -EADDRINUSE || err == -EADDRNOTAVAIL)) err = 0;
	}
	o2_id_destroy(*out);
	return err;
}

int o2_id_do(o2_id *id, int what, int timeout_ms) {
	struct ibv_qp_attr failed = {.qp_state = IBV_QPS_ERR};
	int err;
	switch (what) {
	case O2_RESOLVE_ROUTE: return negative(p_rdma_resolve_route(id, timeout_ms));
	case O2_ESTABLISHED: err = negative(p_rdma_notify(id, IBV_EVENT_COMM_EST)); return err == -EISCONN ? 0 : err;
	case O2_DISCONNECT: return negative(p_rdma_disconnect(id));
	case O2_FAIL: return id->qp ? negative(p_ibv_modify_qp(id->qp, &failed, IBV_QP_STATE)) : -EINVAL;
	default: return -EINVAL;
	}
}

int o2_connect(o2_id *id, const void *priv, int len, int retries, int rnr, int accept) {
	struct rdma_conn_param p = {.private_data = priv, .private_data_len = len, .flow_control = 1, .retry_count = retries, .rnr_retry_count = rnr};
	return negative(accept ? p_rdma_accept(id, &p) : p_rdma_connect(id, &p));
}

int o2_reject(o2_id *id, const void *priv, int len) { return negative(p_rdma_reject(id, priv, len)); }

void o2_id_addrs(o2_id *id, o2_addr *local, o2_addr *remote) {
	memcpy(local, &id->route.addr.src_storage, sizeof *local);
	memcpy(remote, &id->route.addr.dst_storage, sizeof *remote);
}

int o2_id_destroy(o2_id *id) {
	if (id->qp) p_rdma_destroy_qp(id);
	return counted(-1, p_rdma_destroy_id(id));
}

uintptr_t o2_id_context(o2_id *id, int *port) {
	*port = id->port_num;
	return (uintptr_t)id->verbs;
}

void o2_id_files(o2_id *id, int *cmd, int *async, char *sysfs, int size) {
	*cmd = id->verbs->cmd_fd;
	*async = id->verbs->async_fd;
	strncpy(sysfs, id->verbs->device->dev_path, size - 1);
}

int o2_dev_open(o2_id *id, o2_dev **out, o2_attr *a) {
	struct ibv_device_attr v;
	int err = negative(p_ibv_query_device(id->verbs, &v));
	if (err) return err;
	*a = (o2_attr){.max_memory = v.max_mr_size, .ports = v.phys_port_cnt, .max_qp = v.max_qp, .max_wr = v.max_qp_wr, .max_sge = v.max_sge,
		.max_cq = v.max_cq, .max_cqe = v.max_cqe, .max_mr = v.max_mr, .vectors = id->verbs->num_comp_vectors};
	strncpy(a->name, p_ibv_get_device_name(id->verbs->device), sizeof a->name - 1);
	if (!(*out = p_ibv_alloc_pd(id->verbs))) return -errno;
	int fd = watchable(id->verbs->async_fd);
	atomic_fetch_add(&live, 1);
	if (fd < 0) o2_dev_close(*out);
	return fd;
}

int o2_dev_close(o2_dev *d) { return counted(-1, p_ibv_dealloc_pd(d)); }

int o2_dev_drain(o2_dev *d, o2_async *ev, int max) {
	struct ibv_async_event e;
	int n;
	for (n = 0; n < max; n++) {
		if (p_ibv_get_async_event(d->context, &e)) return n ? n : errno == EAGAIN || errno == EINTR ? 0 : -errno;
		ev[n] = (o2_async){.kind = e.event_type};
		if (e.event_type >= IBV_EVENT_PORT_ACTIVE && e.event_type <= IBV_EVENT_GID_CHANGE && e.event_type != IBV_EVENT_QP_LAST_WQE_REACHED)
			ev[n].port = e.element.port_num;
		else if (e.event_type >= IBV_EVENT_QP_FATAL && e.event_type <= IBV_EVENT_PATH_MIG_ERR)
			ev[n].qpn = e.element.qp->qp_num;
		p_ibv_ack_async_event(&e);
	}
	return n;
}

int o2_dev_port(o2_dev *d, int port, int *mtu, int *ethernet) {
	struct ibv_port_attr a = {0};
	int err = negative(p_ibv_query_port(d->context, port, (void *)&a));
	*mtu = a.active_mtu ? 128 << a.active_mtu : 0;
	*ethernet = a.link_layer == IBV_LINK_LAYER_ETHERNET;
	return err ? err : (int)a.state;
}

int o2_mem_reg(o2_dev *d, uintptr_t addr, size_t len, int access, o2_mr **out, uint32_t *lkey, uint32_t *rkey) {
	if (!(*out = p_ibv_reg_mr(d, (void *)addr, len, access))) return -errno;
	*lkey = (*out)->lkey;
	*rkey = (*out)->rkey;
	return counted(1, 0);
}

int o2_mem_unreg(o2_mr *m) { return counted(-1, p_ibv_dereg_mr(m)); }

struct o2_cq {
	struct ibv_comp_channel *channel; // of both queues, whose contexts count events to acknowledge
	struct ibv_cq *recvs, *sends;     // NULL: destroyed, or not created
	unsigned sleeps; // since events were last read from the channel
};

static void ack(struct ibv_cq *q) {
	p_ibv_ack_cq_events(q, (uintptr_t)q->cq_context);
	q->cq_context = NULL;
}

static int end(struct ibv_cq **q) {
	int err = *q ? (ack(*q), negative(p_ibv_destroy_cq(*q))) : 0;
	if (!err) *q = NULL;
	return err;
}

int o2_cq_close(o2_cq *q) {
	int err = end(&q->recvs);
	if (err || (err = end(&q->sends))) return err;
	if (q->channel) p_ibv_destroy_comp_channel(q->channel);
	free(q);
	return counted(-1, 0);
}

int o2_cq_open(o2_dev *d, int entries, int vector, o2_cq **out, int *got) {
	o2_cq *q = *out = calloc(1, sizeof *q);
	if (!q) return -ENOMEM;
	atomic_fetch_add(&live, 1);
	int fd = (q->channel = p_ibv_create_comp_channel(d->context)) ? watchable(q->channel->fd) : -errno;
	if (fd >= 0 && (q->recvs = p_ibv_create_cq(d->context, entries, NULL, q->channel, vector)) &&
		(q->sends = p_ibv_create_cq(d->context, entries, NULL, q->channel, vector))) {
		*got = q->recvs->cqe < q->sends->cqe ? q->recvs->cqe : q->sends->cqe;
		return fd;
	}
	int err = fd < 0 ? fd : -(errno ? errno : ENOMEM);
	if (fd >= 0) close(fd);
	o2_cq_close(q);
	return err;
}

static uint64_t nanos(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static int take(struct ibv_cq *q, o2_wc *out, int max) {
	struct ibv_wc wc[64];
	int n = ibv_poll_cq(q, max < 64 ? max : 64, wc);
	for (int i = 0; i < n; i++)
		out[i] = (o2_wc){wc[i].wr_id, wc[i].qp_num, wc[i].byte_len, wc[i].status, wc[i].opcode, {0}, wc[i].vendor_err};
	return n < 0 ? -EIO : n;
}

// Requests come first, as they usually complete before the peer answers. Deferred ones are taken only with a receive.
static int harvest(o2_cq *q, o2_wc *out, int max, bool deferred) {
	int n = take(deferred ? q->recvs : q->sends, out, max);
	if (n < 0 || n == max || (deferred && !n)) return n;
	int more = take(deferred ? q->sends : q->recvs, out + n, max - n);
	return more < 0 ? more : n + more;
}

int o2_cq_spin(o2_cq *q, o2_wc *out, int max, uint64_t ns, const uint32_t *deferred) {
	int n;
	for (uint64_t end = nanos() + ns; !(n = harvest(q, out, max, __atomic_load_n(deferred, __ATOMIC_ACQUIRE))) && nanos() < end;) sched_yield();
	return n;
}

// Each notification makes the descriptor readable again for Go's poller, which is edge-triggered, even if earlier
// ones were not read. So they are read and acknowledged many at a time.
int o2_cq_poll(o2_cq *q, o2_wc *out, int max, int arm) {
	enum { readEvery = 32 };
	struct ibv_cq *which;
	void *count;
	int n = harvest(q, out, max, false), err;
	if (n || !arm) return n;
	if (++q->sleeps == readEvery) {
		q->sleeps = 0;
		while (!p_ibv_get_cq_event(q->channel, &which, &count)) which->cq_context = (char *)which->cq_context + 1;
		if (errno != EAGAIN && errno != EINTR) return -errno;
		ack(q->recvs);
		ack(q->sends);
	}
	if ((arm & 1) && (err = negative(ibv_req_notify_cq(q->recvs, 0)))) return err;
	if ((arm & 2) && (err = negative(ibv_req_notify_cq(q->sends, 0)))) return err;
	return harvest(q, out, max, false);
}

int o2_qp_create(o2_id *id, o2_dev *d, o2_cq *q, o2_qp *z) {
	struct ibv_qp_init_attr a = {.send_cq = q->sends, .recv_cq = q->recvs, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = z->sends, .max_recv_wr = z->recvs, .max_send_sge = z->pieces, .max_recv_sge = 1, .max_inline_data = z->inline_max}};
	int err = negative(p_rdma_create_qp(id, d, &a));
	if (!err) *z = (o2_qp){a.cap.max_send_wr, a.cap.max_recv_wr, a.cap.max_send_sge, a.cap.max_inline_data, id->qp->qp_num};
	return err;
}

// Chains are built on the stack, as many links at a time as it is sure to have room for.
int o2_post(o2_id *id, const o2_recv *r, int nr, const o2_wr *w, int nw, const o2_sge *s, int *done_r, int *done_w) {
	enum { links = 64 };
	struct ibv_recv_wr rs[links], *bad_r;
	struct ibv_send_wr ws[links], *bad_w;
	struct ibv_sge piece[links];
	int err, n;
	if (!id->qp) return -EINVAL;
	for (; *done_r < nr; *done_r += n) {
		n = nr - *done_r < links ? nr - *done_r : links;
		for (int i = 0; i < n; i++, r++) {
			piece[i] = (struct ibv_sge){r->addr, r->len, r->lkey};
			rs[i] = (struct ibv_recv_wr){r->wr_id, i + 1 < n ? &rs[i + 1] : NULL, &piece[i], 1};
		}
		if ((err = negative(ibv_post_recv(id->qp, rs, &bad_r)))) return *done_r += bad_r - rs, err;
	}
	for (; *done_w < nw; *done_w += n) {
		n = nw - *done_w < links ? nw - *done_w : links;
		for (int i = 0; i < n; i++, w++)
			ws[i] = (struct ibv_send_wr){.wr_id = w->wr_id, .next = i + 1 < n ? &ws[i + 1] : NULL, .sg_list = (struct ibv_sge *)(uintptr_t)(s + w->first),
				.num_sge = w->count, .opcode = w->op ? IBV_WR_RDMA_WRITE : IBV_WR_SEND, .wr.rdma = {w->raddr, w->rkey},
				.send_flags = (w->flags & 1 ? IBV_SEND_SIGNALED : 0) | (w->flags & 2 ? IBV_SEND_INLINE : 0)};
		if ((err = negative(ibv_post_send(id->qp, ws, &bad_w)))) return *done_w += bad_w - ws, err;
	}
	return 0;
}
