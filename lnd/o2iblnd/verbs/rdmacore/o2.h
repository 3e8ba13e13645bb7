// The shim's functions and flat values (o2iblnd 19.2). An int that is returned is a count, a file
// descriptor or 0, or a negative errno. Nothing blocks on the network, calls back, or keeps
// memory that it was given.
#ifndef O2_H
#define O2_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The libraries' own objects are the handles; a device is its protection domain. A completion queue consists of
// two of the library's, one for receives and one for requests, which can notify separately.
typedef struct rdma_event_channel o2_chan;
typedef struct rdma_cm_id o2_id;
typedef struct ibv_pd o2_dev;
typedef struct ibv_mr o2_mr;
typedef struct o2_cq o2_cq;

typedef struct { uint8_t b[28]; } o2_addr; // a sockaddr_in or a sockaddr_in6
enum { O2_RESOLVE_ROUTE, O2_ESTABLISHED, O2_DISCONNECT, O2_FAIL };
typedef struct { uint64_t wr_id, addr; uint32_t len, lkey; } o2_recv;
typedef struct { uint64_t addr; uint32_t len, lkey; } o2_sge;
typedef struct { uint64_t wr_id, raddr; uint32_t rkey; uint16_t first, count; uint8_t op, flags, pad[6]; } o2_wr;
typedef struct { uint64_t wr_id; uint32_t qpn, bytes; uint8_t status, op, pad[2]; uint32_t vendor; } o2_wc;
typedef struct { uint32_t kind, port, qpn; } o2_async;
typedef struct { uint32_t sends, recvs, pieces, inline_max, qpn; } o2_qp;
typedef struct { char name[64]; uint64_t max_memory; uint32_t ports, max_qp, max_wr, max_sge, max_cq, max_cqe, max_mr, vectors; } o2_attr;
typedef struct {
	uint64_t token, listener; // of whom; of a connection request also the listener
	o2_id *fresh;             // of a connection request
	uint32_t kind;
	int32_t status;
	uint8_t retries, rnr_retries, priv_len, priv[196];
} o2_event;

int o2_load(void);
int o2_live(void); // objects that have not been given back

int o2_chan_open(o2_chan **out);                                           // a descriptor to wait at
int o2_chan_drain(o2_chan *c, o2_event *ev, int max, uint64_t tokens);     // numbers of fresh IDs: max, from tokens on
int o2_chan_close(o2_chan *c);

int o2_listen(o2_chan *c, o2_addr *a, int backlog, uint64_t token, o2_id **out);
int o2_dial(o2_chan *c, o2_addr *src, o2_addr *dst, int timeout_ms, bool privileged, int tos, uint64_t token, o2_id **out);
int o2_id_do(o2_id *id, int what, int timeout_ms);
int o2_connect(o2_id *id, const void *priv, int len, int retries, int rnr, int accept);
int o2_reject(o2_id *id, const void *priv, int len);
void o2_id_addrs(o2_id *id, o2_addr *local, o2_addr *remote);
int o2_id_destroy(o2_id *id);

uintptr_t o2_id_context(o2_id *id, int *port); // 0: bound to no device
void o2_id_files(o2_id *id, int *cmd, int *async, char *sysfs, int size); // of the context, and the directory of the file in sysfs
int o2_dev_open(o2_id *id, o2_dev **out, o2_attr *a); // a descriptor to wait at
int o2_dev_drain(o2_dev *d, o2_async *ev, int max);
int o2_dev_port(o2_dev *d, int port, int *mtu, int *ethernet); // its state
int o2_dev_close(o2_dev *d);
// Librdmacm may close a device without IDs, if it missed it in the list of devices while another
// one came or went. The anchor is an ID of no other use, bound to the device of id; NULL: there is none.
o2_id *o2_dev_anchor(o2_id *id);
int o2_mem_reg(o2_dev *d, uintptr_t addr, size_t len, int access, o2_mr **out, uint32_t *lkey, uint32_t *rkey);
int o2_mem_unreg(o2_mr *m);
int o2_cq_open(o2_dev *d, int entries, int vector, o2_cq **out, int *got); // a descriptor to wait at
int o2_cq_poll(o2_cq *q, o2_wc *out, int max, int arm); // arm: 1 for receives, 2 for requests
int o2_cq_spin(o2_cq *q, o2_wc *out, int max, uint64_t ns, const uint32_t *deferred);
int o2_cq_close(o2_cq *q);
int o2_qp_create(o2_id *id, o2_dev *d, o2_cq *q, o2_qp *size);
int o2_post(o2_id *id, const o2_recv *r, int nr, const o2_wr *w, int nw, const o2_sge *s, int *done_r, int *done_w);

#endif
