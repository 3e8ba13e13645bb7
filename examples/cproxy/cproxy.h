// The interface between cproxy.c, which serves lnetd, and udp.c, which is the network.

#ifndef CPROXY_H
#define CPROXY_H

#include <stdbool.h>
#include <stdint.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the structures are the tables of docs/uplnd-protocol.md");

enum { SEND = 1, RECALL, TAKE, DONE, WAIT, REFUSE, DISCONNECT, LINK_BACK, PROBE, PID, TIMEOUT };                        // orders
enum { SENT = 65, ARRIVED, PAYLOAD, WITHDRAWN, PEER_DOWN, LOST, RESTARTED, STALLED, LINK, ALLOCATE_PID, REGISTER_PID }; // reports
enum { URGENT = 1, HAS_PAYLOAD = 8, UP = 16 };                                                                          // flags
enum { NET_TYPE = 200, NODE = 12345, MIB = 1 << 20 };

struct nid { uint8_t size, type; uint16_t net; uint32_t address, zeros[3]; }; // big endian
struct header { struct nid dest, src; uint32_t dest_pid, src_pid, type, length; uint8_t rest[40]; };
struct entry {
	uint8_t op, flags, status, cause; uint32_t length; uint64_t handle, offset, time;
	struct nid peer; uint32_t pid; uint64_t zero; union { struct header header; char text[192]; };
};

// A reason says how messages end, and a peer, when its link does.
struct reason { uint8_t seen, unseen, cause; const char *text; }; // seen: the status of what the peer may have seen
extern const struct reason broken, disconnected;

// An arrival is a message from a peer that is being received, or which lnetd has not ended.
struct arrival { bool used; struct nid from; struct header header; uint32_t received; uint8_t *payload; };

struct lnetd;
void report(struct lnetd *, struct entry);
void report_failed(struct lnetd *, struct entry, uint8_t status, const struct reason *);
const uint8_t *payload_of(const struct lnetd *, const struct entry *send);
bool is_valid(const struct header *);
struct arrival *begin_arrival(struct lnetd *, struct nid from, const struct header *); // NULL: no memory is free
void report_arrival(struct lnetd *, struct arrival *);                                 // all of it has been received

struct udp;
struct udp *udp_open(struct lnetd *, struct nid, uint16_t port, int *fd); // NULL: it has printed an error
void udp_send(struct udp *, const struct entry *send);
void udp_resume(struct udp *); // there is memory for another arrival
void udp_recall(struct udp *, uint64_t handle);
void udp_end(struct udp *, struct nid peer, const struct reason *); // ends the link with a peer that has one
void udp_receive(struct udp *);                    // reads what the socket has
int udp_watch(struct udp *, int64_t timeout);      // repeats, and looks for timeouts; returns when to call it again, for poll
void udp_close(struct udp *);

#endif
