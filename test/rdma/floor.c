//go:build ignore
// (so that Go leaves this file alone)

// The plainest program that exchanges messages over RDMA, which bench_test.go sets lnetd beside:
//
//	cc -std=gnu11 -Wall -Wextra -Werror -O2 -o floor floor.c -lrdmacm -libverbs
//	floor serve SPIN ADDRESS PORT
//	floor call SPIN FROM ADDRESS PORT
//
// Both ends have one thread, which takes what the completion queue has, and answers each message at once,
// with a post for each. If the queue is empty, the thread polls it for SPIN microseconds, and then sleeps.
// A caller reads lines "KIND NUMBER WINDOW". For so many exchanges, with at most WINDOW under way, it
// prints the nanoseconds that they took, and how often it slept. Exchanges are message and
// answer (m), RDMA WRITE of 1 MiB with a message behind it, and answer (w), message, and RDMA
// WRITE of 1 MiB with the answer behind it (r). Both end with its input.
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { message = 120, window = 64, bulks = 8, bulk = 1 << 20, receives = 2 * window, signalEvery = 16, queue = 4 * window };

struct keys { uint64_t addr; uint32_t rkey; }; // of the bulk memory, as private data

static struct rdma_event_channel *events;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static char *memory; // receives, a message to send, bulks
static struct keys peer;
static unsigned sent;
static long long spin; // nanoseconds

#define CHECK(x) do { if (!(x)) { perror(#x); exit(1); } } while (0)

static char *bulkAt(int k) { return memory + (receives + 1) * message + (size_t)(k % bulks) * bulk; }

static struct keys mine(void) { return (struct keys){(uintptr_t)bulkAt(0), mr->rkey}; }

// The word in front of a message: what the answer is to be, and which bulk.
static void post(struct rdma_cm_id *id, char kind, int slot, int with) {
	struct ibv_sge piece[2] = {{(uintptr_t)bulkAt(slot), bulk, mr->lkey}, {(uintptr_t)memory + receives * message, message, mr->lkey}};
	struct ibv_send_wr send = {.sg_list = &piece[1], .num_sge = 1, .opcode = IBV_WR_SEND}, *bad,
		write = {.next = &send, .sg_list = piece, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
			.wr.rdma = {peer.addr + (size_t)(slot % bulks) * bulk, peer.rkey}};
	char *head = memory + receives * message;
	head[0] = kind;
	head[1] = slot;
	send.send_flags = IBV_SEND_INLINE;
	if (++sent % signalEvery == 0) send.send_flags |= IBV_SEND_SIGNALED;
	CHECK(!ibv_post_send(id->qp, with ? &write : &send, &bad));
}

static void receive(struct rdma_cm_id *id, uint64_t k) {
	struct ibv_sge piece = {(uintptr_t)memory + k * message, message, mr->lkey};
	struct ibv_recv_wr r = {.wr_id = k, .sg_list = &piece, .num_sge = 1}, *bad;
	CHECK(!ibv_post_recv(id->qp, &r, &bad));
}

static void prepare(struct rdma_cm_id *id) {
	size_t size = (receives + 1) * message + (size_t)bulks * bulk;
	if (!pd) {
		CHECK(pd = ibv_alloc_pd(id->verbs));
		CHECK(channel = ibv_create_comp_channel(id->verbs));
		CHECK(memory = aligned_alloc(4096, (size + 4095) / 4096 * 4096));
		memset(memory, 1, size);
		CHECK(mr = ibv_reg_mr(pd, memory, size, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
		CHECK(cq = ibv_create_cq(id->verbs, 2 * queue, NULL, channel, 0));
	}
	struct ibv_qp_init_attr a = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = queue, .max_recv_wr = receives, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = message}};
	CHECK(!rdma_create_qp(id, pd, &a));
	for (int k = 0; k < receives; k++) receive(id, k);
}

static struct rdma_cm_id *expect(enum rdma_cm_event_type kind) {
	struct rdma_cm_event *e;
	CHECK(!rdma_get_cm_event(events, &e));
	if (e->event != kind) {
		fprintf(stderr, "%s, status %d\n", rdma_event_str(e->event), e->status);
		exit(1);
	}
	struct rdma_cm_id *id = e->id;
	if (e->param.conn.private_data && e->param.conn.private_data_len >= sizeof peer)
		memcpy(&peer, e->param.conn.private_data, sizeof peer);
	rdma_ack_cm_event(e);
	return id;
}

static long long nanos(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static long sleeps(void) {
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	return u.ru_nvcsw;
}

// sleepAndTake waits for completions, and gives each message to a function, until that says that it
// is enough.
static void sleepAndTake(struct rdma_cm_id *id, int (*take)(struct rdma_cm_id *, const char *, void *), void *arg) {
	struct ibv_wc wc[32];
	struct ibv_cq *which;
	void *context;
	long long since = spin ? nanos() : 0;
	for (int armed = 0;;) {
		int n = ibv_poll_cq(cq, 32, wc);
		CHECK(n >= 0);
		for (int i = 0; i < n; i++) {
			CHECK(wc[i].status == IBV_WC_SUCCESS);
			if (wc[i].opcode != IBV_WC_RECV) continue;
			char head[2];
			memcpy(head, memory + wc[i].wr_id * message, sizeof head);
			receive(id, wc[i].wr_id);
			if (!take(id, head, arg)) return;
		}
		if (n) {
			if (spin) since = nanos();
			continue;
		}
		if (spin && nanos() - since < spin) {
			sched_yield();
			continue;
		}
		if (!armed) { // and look once more
			CHECK(!ibv_req_notify_cq(cq, 0));
			armed = 1;
			continue;
		}
		CHECK(!ibv_get_cq_event(channel, &which, &context));
		ibv_ack_cq_events(cq, 1);
		armed = 0;
	}
}

static int answer(struct rdma_cm_id *id, const char *head, void *arg) {
	(void)arg;
	post(id, head[0], head[1], head[0] == 'r');
	return head[0] != 'e';
}

static struct sockaddr_in at(const char *address, const char *port) {
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(atoi(port))};
	CHECK(inet_pton(AF_INET, address, &a.sin_addr) == 1);
	return a;
}

static void serve(char **argv) {
	struct sockaddr_in a = at(argv[3], argv[4]);
	struct rdma_cm_id *l, *id;
	CHECK(!rdma_create_id(events, &l, NULL, RDMA_PS_TCP) && !rdma_bind_addr(l, (void *)&a) && !rdma_listen(l, 1));
	puts("ready");
	fflush(stdout);
	id = expect(RDMA_CM_EVENT_CONNECT_REQUEST);
	prepare(id);
	struct keys k = mine();
	struct rdma_conn_param p = {.private_data = &k, .private_data_len = sizeof k, .flow_control = 1, .retry_count = 7, .rnr_retry_count = 7};
	CHECK(!rdma_accept(id, &p));
	expect(RDMA_CM_EVENT_ESTABLISHED);
	sleepAndTake(id, answer, NULL);
}

struct exchanges { char kind; int left, begin; };

static int next(struct rdma_cm_id *id, const char *head, void *arg) {
	struct exchanges *x = arg;
	if (x->begin-- > 0) post(id, x->kind, head[1], x->kind == 'w');
	return --x->left > 0;
}

static void call(char **argv) {
	struct sockaddr_in from = at(argv[3], "0"), to = at(argv[4], argv[5]);
	struct rdma_cm_id *id;
	CHECK(!rdma_create_id(events, &id, NULL, RDMA_PS_TCP) && !rdma_resolve_addr(id, (void *)&from, (void *)&to, 10000));
	expect(RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(!rdma_resolve_route(id, 10000));
	expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
	prepare(id);
	struct keys k = mine();
	struct rdma_conn_param p = {.private_data = &k, .private_data_len = sizeof k, .flow_control = 1, .retry_count = 7, .rnr_retry_count = 7};
	CHECK(!rdma_connect(id, &p));
	expect(RDMA_CM_EVENT_ESTABLISHED);
	puts("ready");
	fflush(stdout);
	char kind;
	int n, w;
	while (scanf(" %c %d %d", &kind, &n, &w) == 3) {
		struct exchanges x = {kind, n, n - w};
		long slept = sleeps();
		long long began = nanos();
		for (int i = 0; i < w; i++) post(id, kind, i, kind == 'w');
		sleepAndTake(id, next, &x);
		long long took = nanos() - began;
		printf("%lld %ld\n", took, sleeps() - slept);
		fflush(stdout);
	}
	struct exchanges end = {'e', 1, 0};
	post(id, end.kind, 0, 0);
	sleepAndTake(id, next, &end);
}

int main(int argc, char **argv) {
	CHECK(events = rdma_create_event_channel());
	spin = argc > 2 ? atoll(argv[2]) * 1000 : 0;
	if (argc == 5 && !strcmp(argv[1], "serve")) serve(argv);
	else if (argc == 6 && !strcmp(argv[1], "call")) call(argv);
	else return fprintf(stderr, "floor serve SPIN ADDRESS PORT | floor call SPIN FROM ADDRESS PORT\n"), 2;
	return 0;
}
