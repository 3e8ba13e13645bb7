// Objects of the library, and what its files offer each other.
//
// Locks, in this order: lnetd.request, lnetd_tm.sleep, lnetd_tm.lock, lnetd.table, lnetd.state. A request to lnetd is
// made with lnetd.request held, so there is one at a time, and that lock also guards the lists of memory, buffers and
// TMs. Everything that lnetd writes is copied, checked, and then used.
#ifndef LNETD_INTERNAL_H
#define LNETD_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "wire.h"

_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "words that two processes share cannot have locks");

#if defined(__GNUC__)
#define FORMAT(at) __attribute__((format(printf, at, at + 1)))
#else
#define FORMAT(at)
#endif

enum {
	PAGE = 4096,
	NAME_SIZE = sizeof ((struct wire_hello *)0)->program, // of a program, with its NUL
	REASON_SIZE = TEXT_SIZE + 64, // room for a text with its NUL
	MOST_BUFFERS = 1 << 20,       // indices of buffers that the library accepts
	MTU = 1 << 20,                // the most bytes that LNet moves at once
	MOST_UNASKED = 1024,          // records that one call processes without a request; a socket holds fewer
};

// A memfd that lnetd and this process have mapped. It consists of pieces.
struct area {
	struct area *next;
	int fd;         // is kept for lnetd_reopen
	uint32_t name;  // at lnetd
	uint8_t *start; // of the mapping
	size_t size;
	struct piece *pieces; // by offset
};

// A part of an area that the program uses.
struct piece {
	struct piece *next; // in the area, behind this one
	struct area *area;
	uint8_t *user; // the address that the program uses: in the area, or of adopted memory
	size_t offset, size, used; // size is used, rounded up
	enum { ALLOCATED, REPLACED, COPIED } kind;
	unsigned buffers; // ranges of buffers in it
};

// A part of a buffer that is contiguous.
struct span {
	struct piece *piece;
	uint8_t *user, *shared; // the same address, except in adopted memory
	size_t length;
};

struct lnetd_buf {
	lnetd *domain;
	lnetd_buf *next, **link; // in the domain
	void *data;
	size_t size;
	unsigned spans_count;
	struct span *spans;
	bool copied; // some memory is of kind COPIED
	struct wire_buf_name name;
	// The TM that has an operation of it, or lni_no_tm while it is deregistered. Both begin with an exchange of NULL.
	// The fields below belong to that TM, and its lock guards them.
	_Atomic(lnetd_tm *) tm;
	uint32_t operation, longest, length, messages; // messages and length bytes may still come
	uint8_t opcode;
	bool cancelled;
};

struct lnetd {
	pid_t pid; // of the process that has opened it
	unsigned flags;
	char program[NAME_SIZE];
	char path[108];
	_Atomic int patience;   // ms
	_Atomic int64_t heard;  // ns, when lnetd has last shown that it runs
	_Atomic int64_t asked;  // ns, when the unanswered NOP was sent, or 0
	_Atomic int64_t ending; // ns, when lnetd will end; 0: it has not said so
	_Atomic int error;      // why the connection has ended; 0: it works
	_Atomic bool over;      // nothing more comes from lnetd
	_Atomic uint32_t descriptor_size;
	_Atomic uint32_t spin; // ns, of lnetd_set_spin

	pthread_mutex_t request; // guards the fields below
	int socket;
	uint32_t sequence, nop_sequence;
	uint8_t record[RECORD_SIZE];
	bool descriptors_lost; // those of record, because too many files are open
	struct wire_hello_reply hello;
	struct area *areas;
	struct piece **pieces; // of all areas, by the address that the program uses
	size_t pieces_count, pieces_room;
	lnetd_buf *bufs;
	lnetd_tm *tms;

	pthread_rwlock_t table; // guards the table of buffers, by index
	lnetd_buf **by_index;
	uint32_t by_index_size;

	pthread_mutex_t state; // guards reason
	char reason[REASON_SIZE];
};

// The ring file of a TM.
struct ring {
	uint8_t *file; // NULL: not mapped
	size_t size;
	int wake_lnetd, woken; // eventfd, socket
	uint32_t sq_entries, cq_entries;
	struct wire_submission *sq;
	const struct wire_completion *cq;
	_Atomic uint32_t *sq_tail, *sq_head, *cq_tail, *cq_head, *sq_sleeping, *cq_sleeping, *sq_posted, *sq_waiting, *cq_overflow;
};

// How long threads yield the processor before they sleep. Several threads may change this at the same time, as it need
// not be exact.
struct spin {
	_Atomic uint32_t time;    // of the next spin, in ns
	_Atomic uint32_t skipped; // waits without a spin, as spins found nothing
	_Atomic int64_t recess;   // ns of lni_now; no spin before that
};

struct lnetd_tm {
	lnetd *domain;
	lnetd_tm *next, **link; // in the domain
	struct lnetd_addr wanted, addr;
	uint32_t completions, handle;
	bool futex;               // lnetd has FEATURE_FUTEX
	_Atomic uint32_t tail;    // ours: submissions written
	_Atomic uint32_t shown;   // ours: submissions that lnetd may read
	_Atomic uint32_t head;    // ours: completions read
	_Atomic bool over;        // lnetd no longer uses the ring
	_Atomic bool ending_told; // the event LNETD_ENDING was taken
	_Atomic bool down;        // the event LNETD_DOWN was taken

	struct spin wait_spin, sync_spin;

	_Atomic bool waiting; // a thread is in lnetd_wait, which alone uses the next three fields. Times are in ns of lni_now
	uint32_t waited_head; // head when it last began to wait
	int64_t word_until;   // until then it sleeps on the word
	int64_t looked;       // when it last looked at the connection

	pthread_mutex_t sleep; // held by the thread that sleeps until submissions are carried out

	pthread_mutex_t lock; // guards the fields below, the rings, and the operations
	struct ring ring;
	uint64_t match_bits; // of the next passive buffer
	uint32_t operations; // in progress
	uint32_t batches;    // lnetd_begin without lnetd_commit
	uint32_t cursor;     // place in the table of buffers, when the connection has ended
	bool broken;         // lnetd has written something invalid into the ring
	bool stopping;
};

// text.c

// lni_fail sets the text of the thread and returns -error; error may have either sign.
int lni_fail(int error, const char *format, ...) FORMAT(2);

// lni_printable copies a text of lnetd, with ? instead of characters that are not printable ASCII. out has REASON_SIZE
// bytes.
void lni_printable(char *out, const char *text, size_t length);

int64_t lni_now(void); // CLOCK_MONOTONIC in ns

// connect.c

// lni_connect returns a connected, non-blocking socket. It waits for at most patience milliseconds.
int lni_connect(const char *path, int patience);

// socket.c

// A request. After lni_request, body has length bytes, and fds are the caller's. They are -1 if they do not exist, or
// if too many files are open.
struct reply {
	const uint8_t *body; // valid until the next request
	size_t length;
	int fds[MOST_FDS];
};

// lni_request sends a request, with a descriptor unless fd is -1, and waits for its reply, whose body must have size
// bytes, unless size is ANY_SIZE. d->request is held.
int lni_request(lnetd *d, enum opcode opcode, const void *body, size_t length, int fd, size_t size, struct reply *reply);
#define ANY_SIZE ((size_t)-1)

// lni_hear processes what lnetd has sent without a request, without blocking: at most MOST_UNASKED records. d->request is
// held.
void lni_hear(lnetd *d);
bool lni_try_hear(lnetd *d); // lni_hear, unless another thread makes a request; it then returns false
int lni_send_nop(lnetd *d);  // sends a NOP unless one is unanswered or d->request is held; does not block
void lni_close_fds(int fds[MOST_FDS]);

// domain.c

// the connection has ended; the first reason is kept
void lni_end(lnetd *d, int error, const char *format, ...) FORMAT(3);
void lni_break(lnetd *d, int error, const char *text);               // ends the connection, and does not wait for lnetd
int lni_ended(lnetd *d); // returns the error, after lni_fail with its reason, or 0
int lni_lock(lnetd *d);  // locks d->request, or returns the error of a connection that has ended

// area.c

int lni_area_offer(lnetd *d, struct area *a); // registers an area with lnetd
void lni_areas_free(lnetd *d);
int lni_piece_create(lnetd *d, size_t size, struct piece **out);
void lni_piece_remove(lnetd *d, struct piece *p);
struct piece *lni_piece_find(lnetd *d, const void *memory, size_t size); // the piece with this memory, or NULL
bool lni_overlaps(lnetd *d, const void *memory, size_t size);

// adopt.c

int lni_replace(struct piece *p);   // replaces the pages at p->user by those of the piece
int lni_give_back(struct piece *p); // undoes it, if it was done

// buffer.c

extern lnetd_tm lni_no_tm; // no TM: see lnetd_buf.tm

int lni_buf_offer(lnetd *d, lnetd_buf *b); // registers a buffer with lnetd
void lni_buf_free(lnetd_buf *b);
// copies memory of kind COPIED: out to the area, or back
void lni_buf_copy(lnetd_buf *b, size_t offset, size_t length, bool out);
void lni_table_clear(lnetd *d);

// ring.c

int lni_ring_map(struct ring *r, const int fds[MOST_FDS], uint32_t completions, uint32_t submissions);
void lni_ring_unmap(struct ring *r);
// lni_ring_put adds a submission, and shows it to lnetd unless there is a batch. tm->lock is held.
int lni_ring_put(lnetd_tm *tm, const struct wire_submission *s);
void lni_show(lnetd_tm *tm); // shows lnetd the submissions of batches
void lni_ring_release(lnetd_tm *tm, uint32_t head); // makes the entries before head lnetd's again. tm->lock is held

// spin.c

// lni_spin yields the processor until ready returns true, or until that no longer pays, at most until the time limit.
// *now is the time, at first and at the end. It returns whether ready has returned true.
bool lni_spin(lnetd_tm *tm, struct spin *s, bool (*ready)(lnetd_tm *tm, uint32_t tail), uint32_t tail, int64_t limit, int64_t *now);

// sleep.c

// lni_sleep sleeps on a word in shared memory if it has this value, until lni_wake, a signal, or for time ns.
void lni_sleep(_Atomic uint32_t *word, uint32_t value, int64_t time);
void lni_wake(_Atomic uint32_t *word); // wakes one thread that sleeps on the word

// tm.c

int lni_tm_offer(lnetd *d, lnetd_tm *tm); // starts a TM at lnetd
void lni_tm_free(lnetd_tm *tm);
int lni_tm_ended(lnetd_tm *tm); // lni_ended, or -EPIPE if lnetd no longer uses the ring

// descriptor.c

enum { DESC_IN = 2, DESC_OUT = 3 }; // types of descriptors: the buffer is filled, or fetched

// What a descriptor says of a passive buffer.
struct lni_desc {
	struct lnetd_addr peer;
	uint64_t match_bits, size;
	uint32_t type;
	bool suits; // the NID belongs into a descriptor of this length
};

int lni_desc_make(struct lnetd_desc *out, const struct lnetd_addr *at, uint64_t match_bits, uint32_t type, uint64_t size);
int lni_desc_read(const void *bytes, size_t length, struct lni_desc *d); // checks only the whole, and the type
int lni_desc_check(const struct lni_desc *d);                            // checks the rest

// address.c

bool lni_nid_valid(const struct lnetd_nid *nid); // the bytes are a NID, and not 20 zeros
bool lni_pid_valid(uint32_t pid); // the PID of a node, or of an MPI application
bool lni_nid_zero(const struct lnetd_nid *nid);

#endif
