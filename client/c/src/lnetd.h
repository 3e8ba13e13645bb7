/*
 * liblnetd: LNet for programs in C and C++, through the lnetd of this host.
 *
 * lnetd hosts transfer machines (TMs): a program sends messages, receives messages, and moves bulk data directly
 * between its memory and that of a peer. The connection to lnetd is a Unix socket and shared memory. docs/liblnetd.md
 * is the guide, docs/transport-protocol.md the protocol.
 *
 * Results. A function that returns int returns 0 or a positive number, or -errno (a negative errno of Linux).
 * lnetd_text() returns the reason of the last failure in the calling thread, as a sentence.
 *
 * Threads. Any thread may call any function, except where it says otherwise. The library has no threads and no signal
 * handlers. It does not raise SIGPIPE, and repeats system calls that a signal interrupts.
 *
 * Fork. All descriptors are closed on exec. A child made by fork may call lnetd_close(), and nothing else, with what
 * its parent has opened. It should do so early: until it has closed its copies of the descriptors, or has ended, lnetd
 * does not notice the end of the parent. The memory of lnetd_alloc() does not exist in the child.
 *
 * Pointers to objects of the library are owned by it. The object exists until the function that ends it returns 0.
 */
#ifndef LNETD_H
#define LNETD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define LNETD_API __attribute__((visibility("default")))
#else
#define LNETD_API
#endif

typedef struct lnetd lnetd;         /* a connection to lnetd, with everything that belongs to it */
typedef struct lnetd_tm lnetd_tm;   /* a transfer machine */
typedef struct lnetd_buf lnetd_buf; /* a buffer: memory that lnetd reads and writes */

/* ---- addresses ---- */

/* A NID: the address of a node's interface, in LNet's encoding. 20 zeros are no NID. */
struct lnetd_nid {
	uint8_t bytes[20];
};

/* The address of a TM. */
struct lnetd_addr {
	struct lnetd_nid nid;
	uint32_t pid;    /* LNETD_PID, or that of an MPI application */
	uint32_t portal; /* 1 to 63; 34 is Motr's */
	uint32_t tmid;   /* 1 to 4095, or LNETD_ANY_TM */
};

#define LNETD_PID 12345
#define LNETD_ANY_TM 4096 /* lnetd_tm_start: any free number */

#define LNETD_NID_TEXT 64  /* room for the text of a NID, with its NUL */
#define LNETD_ADDR_TEXT 96 /* room for the text of an address, with its NUL */

/*
 * lnetd_nid_parse reads a NID: "10.0.0.1@tcp", "2001:db8::1@tcp1", "10.0.0.1@o2ib", "0@lo", "5@gni". For a net whose
 * type has no name it reads what lnetd_nid_print writes: "5@<127:2>" is address 5 (hexadecimal) on net 2 of type 127.
 * As everywhere in LNet, an address without "@" is one of net tcp: "10.0.0.1". Errors: -EINVAL.
 */
LNETD_API int lnetd_nid_parse(const char *text, struct lnetd_nid *nid);

/*
 * lnetd_nid_print writes the text of a NID and a NUL to text, which has size bytes. Errors: -ENOSPC; -EINVAL: it is not
 * a NID.
 */
LNETD_API int lnetd_nid_print(const struct lnetd_nid *nid, char *text, size_t size);

/*
 * lnetd_addr_parse reads NID:PID:PORTAL:TM, such as "10.0.0.1@tcp:12345:34:7". TM is a number or "*". Errors: -EINVAL.
 */
LNETD_API int lnetd_addr_parse(const char *text, struct lnetd_addr *addr);

/* lnetd_addr_print writes the text of an address and a NUL to text, which has size bytes. Errors: -ENOSPC, -EINVAL. */
LNETD_API int lnetd_addr_print(const struct lnetd_addr *addr, char *text, size_t size);

/* ---- the connection ---- */

#define LNETD_POLLING 1u /* lnetd_open: lnetd polls for operations before it sleeps, if it is configured to */

/*
 * lnetd_open connects to lnetd. path is its socket; NULL is the default: /run/lnetd/lnetd.sock for root, and for others
 * $XDG_RUNTIME_DIR/lnetd/lnetd.sock, or without that variable lnetd-UID/lnetd.sock in $TMPDIR or /tmp; or root's if
 * that does not exist. program is a name for displays, up to 31 printable characters of ASCII; NULL is the name of the
 * executable, shortened if necessary. flags: 0 or LNETD_POLLING. It blocks until lnetd answers, at most for 10 s for
 * each of a few steps.
 *
 * Errors: -ENOENT, -ECONNREFUSED: no lnetd runs there; -EACCES: lnetd's rules do not permit it; -EDQUOT: the user has
 * too many connections; -EOPNOTSUPP: lnetd is too old; -ETIMEDOUT: lnetd does not answer; -EINVAL: an argument;
 * -EPROTO: it is not lnetd; -ENOMEM, -EMFILE.
 */
LNETD_API int lnetd_open(lnetd **d, const char *path, const char *program, unsigned flags);

/*
 * lnetd_close closes the connection, and frees all that belongs to it: TMs, buffers, memory of lnetd_alloc(). Memory of
 * lnetd_adopt() is the program's again, with its contents. Operations end without events. lnetd may still be reading or
 * writing the memory of operations for a moment, which no longer affects the program, and releases addresses after
 * that: a TM can be started at the same address a moment later, or at once if lnetd_tm_stop() has stopped the first. It
 * does not block. No other thread may use the connection. NULL is permitted. In a child made by fork it only closes the
 * child's descriptors.
 */
LNETD_API void lnetd_close(lnetd *d);

/*
 * lnetd_fd returns the descriptor of the connection, for poll or epoll (for reading). If it is readable, call
 * lnetd_process(). It is the library's: do not read or close it. It changes in lnetd_reopen().
 */
LNETD_API int lnetd_fd(const lnetd *d);

/*
 * lnetd_process reads what lnetd has sent without a request. It does not block, and reads at most 1024 records; if there
 * are more, lnetd_fd() remains readable. It returns 0; or, if lnetd has announced its end, the number of seconds until
 * then (1 or more); or an error if the connection has ended: -EPIPE: lnetd has died; -ESHUTDOWN: it has stopped;
 * -ECONNABORTED: its administrator has disconnected the program; -EPROTO: lnetd has sent something invalid; other errors
 * are lnetd's reason. lnetd_text() is that reason in words. Then the remaining events come, up to LNETD_DOWN from each
 * TM, for at most some seconds. After that call lnetd_reopen() or lnetd_close().
 */
LNETD_API int lnetd_process(lnetd *d);

/*
 * lnetd_reopen connects again, after the connection has ended and all events up to LNETD_DOWN have been taken from each
 * TM. It registers all memory and buffers and starts all TMs again, with the same numbers if they are free. Pointers
 * remain valid; descriptors (lnetd_fd, lnetd_tm_fd) change. If it fails, it can be called again; wait between attempts.
 * No other thread may use the connection. It blocks like lnetd_open().
 *
 * Errors: -EBUSY: the connection works, or events have not been taken; those of lnetd_open(), lnetd_alloc(),
 * lnetd_register() and lnetd_tm_start().
 */
LNETD_API int lnetd_reopen(lnetd *d);

/*
 * lnetd_ping asks lnetd for an answer. It blocks until the answer comes. Errors: -ETIMEDOUT: no answer came in time;
 * the connection is closed then, as if lnetd had died; those of lnetd_process().
 */
LNETD_API int lnetd_ping(lnetd *d);

/*
 * lnetd_set_patience sets how long lnetd may send nothing at all, in milliseconds, 10000 by default, while a request
 * waits for its reply (it then fails with -ETIMEDOUT, and the connection is closed) or lnetd_wait() waits. Errors:
 * -EINVAL: below 1.
 */
LNETD_API int lnetd_set_patience(lnetd *d, int milliseconds);

/*
 * lnetd_set_spin sets how long a thread in lnetd_wait() or lnetd_sync() looks for what it waits for before it sleeps, in
 * microseconds, 50 by default and at most 1000000. In between it yields the processor (sched_yield). The time is shorter
 * while that finds nothing, and 0 for a moment if another thread needs the processor. It saves system calls and context
 * switches if answers come quickly. 0: threads sleep at once. Errors: -EINVAL: too long.
 */
LNETD_API int lnetd_set_spin(lnetd *d, unsigned microseconds);

/*
 * lnetd_text returns the reason of the last failure of a function in the calling thread. It is valid until the next
 * failure in this thread, and never NULL.
 */
LNETD_API const char *lnetd_text(void);

/*
 * lnetd_strerror returns a short constant text for a result, or for the status of an event. It accepts -errno and
 * errno.
 */
LNETD_API const char *lnetd_strerror(int result);

/* Limits and quotas of a connection. */
struct lnetd_limits {
	size_t size;              /* set by the caller: sizeof(struct lnetd_limits) */
	uint64_t buffer_size;     /* bytes in a buffer */
	uint64_t memory;          /* bytes of lnetd_alloc and lnetd_adopt */
	uint64_t incarnation;     /* differs after each start of lnetd */
	uint64_t connection;      /* number of the connection, as lnetd displays it */
	uint32_t tms;             /* TMs */
	uint32_t buffers;         /* buffers */
	uint32_t areas;           /* memfds */
	uint32_t completions;     /* entries of all completion rings, and completions that wait in lnetd */
	uint32_t range_size;      /* bytes in one range of a buffer; the library divides ranges */
	uint32_t ranges;          /* ranges in a buffer, after that division */
	uint32_t descriptor_size; /* bytes of the longest descriptor of a passive buffer: 48 or 64 */
	uint32_t polling;         /* 1 if lnetd polls for operations */
};

/* lnetd_limits fills in limits, whose size the caller has set. Errors: -EINVAL: the size is 0. */
LNETD_API int lnetd_limits(lnetd *d, struct lnetd_limits *limits);

/*
 * lnetd_nids writes lnetd's NIDs, at most most of them, and returns how many lnetd has (up to 817), which may be more.
 * It blocks until lnetd answers.
 */
LNETD_API int lnetd_nids(lnetd *d, struct lnetd_nid *nids, int most);

/* ---- memory ---- */

/*
 * lnetd_alloc allocates zeroed memory that lnetd can access without a copy. It is aligned to 64 bytes, and to a page if
 * it has a page or more. It counts for the quota of memory, in areas of 1 MiB or more. It survives the end of lnetd. It
 * may block until lnetd answers, and uses memory only after lnetd has agreed. Errors: -EDQUOT: a quota; -ENOMEM;
 * -EINVAL: size is 0; those of lnetd_process().
 */
LNETD_API int lnetd_alloc(lnetd *d, size_t size, void **memory);

#define LNETD_IN_PLACE 0u /* lnetd_adopt: replace the pages */
#define LNETD_COPY 1u     /* lnetd_adopt: copy in each operation */

/*
 * lnetd_adopt makes memory of the program usable for buffers.
 *
 * LNETD_IN_PLACE replaces its pages by shared pages with the same content; operations copy nothing. The memory must be
 * whole pages of private anonymous writable memory (of mmap, or of aligned_alloc), but not of a stack. The call copies
 * the contents once, and lnetd_free() does so again. Meanwhile no thread may write to it. What mlock, mbind and madvise
 * have set is lost, and so are pins of devices. Children made by fork share the pages instead of having a copy. Unmap
 * or free() the memory only after lnetd_free().
 *
 * LNETD_COPY permits any memory and leaves it where it is, but each operation copies: a send when it is submitted, a
 * receive when its event is taken (some 0.1 ms for 1 MiB). It uses as much memory of lnetd as LNETD_IN_PLACE.
 *
 * Errors: -EINVAL: LNETD_IN_PLACE is not possible here, or the memory overlaps other memory of the connection; those of
 * lnetd_alloc().
 */
LNETD_API int lnetd_adopt(lnetd *d, void *memory, size_t size, unsigned flags);

/*
 * lnetd_free frees memory of lnetd_alloc(), or ends lnetd_adopt(); memory is what was allocated or adopted, from its
 * beginning. It may block until lnetd answers. Errors: -EBUSY: a buffer uses it; -EINVAL: no such memory; -ENOMEM:
 * private pages cannot be restored, and all remains as it was.
 */
LNETD_API int lnetd_free(lnetd *d, void *memory);

/*
 * lnetd_register creates a buffer from n ranges of memory that lnetd_alloc() or lnetd_adopt() has made usable. The
 * buffer consists of the ranges, one after the other. data is the program's, and comes with each event. It blocks until
 * lnetd answers. Errors: -EINVAL: a range is empty or not in such memory; -EFBIG: too many ranges or bytes; -EDQUOT:
 * too many buffers; -ENOMEM; those of lnetd_process().
 */
LNETD_API int lnetd_register(lnetd *d, const struct iovec *ranges, int n, void *data, lnetd_buf **buffer);

/*
 * lnetd_deregister ends a buffer. It blocks until lnetd answers. An operation that another thread begins meanwhile fails
 * with -EBUSY. Errors: -EBUSY: the buffer has an operation.
 */
LNETD_API int lnetd_deregister(lnetd_buf *buffer);

/* lnetd_buf_size returns the size of a buffer in bytes, lnetd_buf_data what lnetd_register() was given. */
LNETD_API size_t lnetd_buf_size(const lnetd_buf *buffer);
LNETD_API void *lnetd_buf_data(const lnetd_buf *buffer);

/*
 * lnetd_at returns the address of the byte at offset in a buffer, or NULL if the buffer is shorter. If contiguous is
 * not NULL, it receives how many bytes follow one another from there.
 */
LNETD_API void *lnetd_at(const lnetd_buf *buffer, size_t offset, size_t *contiguous);

/* ---- transfer machines ---- */

/*
 * lnetd_tm_start starts a TM. The NID of addr is one of lnetd_nids(), pid is LNETD_PID, or with liblnet_mpi that of the
 * application, tmid may be LNETD_ANY_TM. completions is the number of entries of its completion ring, up to 16384; 0 is
 * 1024. It only affects speed: completions for which there is no room wait in lnetd. If more wait than lnetd_limits()
 * permits, because the program does not take its events, lnetd ends the connection with -ENOSPC. It blocks until lnetd
 * answers. Errors: -EACCES: a rule of lnetd; -EADDRINUSE; -EADDRNOTAVAIL: no number is free; -ENOENT: lnetd does not have the NID; -EDQUOT;
 * -EINVAL; -ENOMEM; -EMFILE: too many open files; those of lnetd_process().
 */
LNETD_API int lnetd_tm_start(lnetd *d, const struct lnetd_addr *addr, uint32_t completions, lnetd_tm **tm);

/*
 * lnetd_tm_stop stops a TM and frees it. No other thread may use it. It blocks until lnetd answers. Errors: -EBUSY:
 * operations are in progress, or their final events have not been taken (after the end of a connection as well: take
 * the events, or use lnetd_close()).
 */
LNETD_API int lnetd_tm_stop(lnetd_tm *tm);

/* lnetd_tm_addr writes the address of a TM, with its number. */
LNETD_API void lnetd_tm_addr(const lnetd_tm *tm, struct lnetd_addr *addr);

/*
 * Operations. A buffer has one operation at a time, on one TM. From the call to its final event the buffer is lnetd's:
 * do not write to it, and do not read what is received. The calls do not block. Each operation that was accepted (0 is
 * returned) gets exactly one final event, also if lnetd dies.
 *
 * Errors of all: -EBUSY: the buffer has an operation; -EINVAL: an argument; -EAGAIN: the submission ring is full (call
 * lnetd_sync(), and repeat); those of lnetd_process().
 */

/*
 * lnetd_recv waits for messages to the TM. Each has an event with LNETD_MESSAGE and its place in the buffer. The
 * operation ends after the given number of messages, or when less than longest bytes of room are left. A message is
 * lost if it is longer than longest bytes, or finds no buffer. Before peers are told that they can send, call
 * lnetd_sync().
 */
LNETD_API int lnetd_recv(lnetd_tm *tm, lnetd_buf *buffer, uint32_t longest, uint32_t messages);

/*
 * lnetd_send sends the first length bytes of a buffer as a message. A successful event does not mean that the peer has
 * received it.
 */
LNETD_API int lnetd_send(lnetd_tm *tm, lnetd_buf *buffer, uint32_t length, const struct lnetd_addr *to);

/* Directions of bulk, from the view of the side that calls. */
#define LNETD_IN 0u  /* the peer's data come into the buffer */
#define LNETD_OUT 1u /* the buffer's data go to the peer */

/* A descriptor tells a peer how to reach a passive buffer. Send the first size bytes to it, in a message. */
struct lnetd_desc {
	uint32_t size; /* 48, or 64 for a TM with an IPv6 address */
	uint8_t bytes[64];
};

/*
 * lnetd_offer offers a buffer to one peer (passive bulk). LNETD_OUT: the peer fetches its first length bytes. LNETD_IN:
 * the peer fills it, with any length up to its size; length is ignored. desc receives the descriptor. If the peer may
 * learn of it before a message of this TM could have told it, call lnetd_sync() first.
 */
LNETD_API int lnetd_offer(lnetd_tm *tm, lnetd_buf *buffer, unsigned direction, uint32_t length, struct lnetd_desc *desc);

/* lnetd_offer_bits is like lnetd_offer, but returns only the match bits, for programs with their own descriptors. */
LNETD_API int lnetd_offer_bits(lnetd_tm *tm, lnetd_buf *buffer, unsigned direction, uint32_t length, uint64_t *match_bits);

/*
 * lnetd_move moves the data of what a peer offers (active bulk); desc are size bytes from the peer, which the call
 * checks. LNETD_IN fetches everything that is offered; length is ignored. LNETD_OUT sends the first length bytes of the
 * buffer. Further errors: -EINVAL: the descriptor is damaged; -EPERM: it offers the other direction; -EFBIG: the
 * buffer, or the peer's, is too small, or the peer offers more than 1 MiB.
 */
LNETD_API int lnetd_move(lnetd_tm *tm, lnetd_buf *buffer, unsigned direction, uint32_t length, const void *desc, size_t size);

/*
 * lnetd_move_bits is like lnetd_move, with the peer's address and match bits. In both directions length is the number
 * of bytes.
 */
LNETD_API int lnetd_move_bits(lnetd_tm *tm, lnetd_buf *buffer, unsigned direction, uint32_t length,
			      const struct lnetd_addr *peer, uint64_t match_bits);

/*
 * lnetd_cancel cancels the operation of a buffer on this TM. The operation ends with -ECANCELED, or as it would have
 * ended; wait for its final event. It does nothing if there is no operation. Errors: -EAGAIN; those of lnetd_process().
 */
LNETD_API int lnetd_cancel(lnetd_tm *tm, lnetd_buf *buffer);

/*
 * lnetd_begin begins a batch: lnetd sees the operations that are submitted from now on when the batch ends, and is woken
 * once for all of them. It sees them earlier if the submission ring is full, or if a thread calls lnetd_sync(),
 * lnetd_wait() or lnetd_tm_arm(). Until then they do not begin, and take room in the ring. A TM may have several batches
 * at a time, also of different threads; the end of one shows lnetd the operations of all. lnetd_reopen() does not end
 * batches. It does not block. Errors: those of lnetd_process().
 */
LNETD_API int lnetd_begin(lnetd_tm *tm);

/*
 * lnetd_commit ends a batch. It does not block. Errors: -EINVAL: no batch was begun; those of lnetd_process(): the batch
 * has ended as well.
 */
LNETD_API int lnetd_commit(lnetd_tm *tm);

/*
 * lnetd_sync waits until lnetd has carried out all operations of the TM that were submitted before the call: then peers
 * can reach their buffers. It needs no event. milliseconds: 0 does not block, -1 has no limit. It returns 0, or
 * -ETIMEDOUT after that time, or the errors of lnetd_process().
 */
LNETD_API int lnetd_sync(lnetd_tm *tm, int milliseconds);

/* ---- events ---- */

/* Types of events. */
enum lnetd_event_type {
	LNETD_RECV = 1,         /* lnetd_recv */
	LNETD_SEND = 2,         /* lnetd_send */
	LNETD_PASSIVE_IN = 3,   /* lnetd_offer, LNETD_IN */
	LNETD_PASSIVE_OUT = 4,  /* lnetd_offer, LNETD_OUT */
	LNETD_ACTIVE_IN = 5,    /* lnetd_move, LNETD_IN */
	LNETD_ACTIVE_OUT = 6,   /* lnetd_move, LNETD_OUT */
	LNETD_LOST = 64,        /* the TM has lost something; the status says what: -ENOBUFS: a message */
	LNETD_ENDING = 65,      /* lnetd ends in length seconds; the program should finish what it does */
	LNETD_DOWN = 66         /* the connection has ended, status is the reason; the last event of the TM */
};

/* Flags of events. */
#define LNETD_FINAL 1u    /* the operation is complete, and the buffer is the program's again */
#define LNETD_REJECTED 2u /* lnetd has not begun the operation; with LNETD_FINAL */
#define LNETD_MESSAGE 4u  /* there is a message: offset, length and peer */

struct lnetd_event {
	lnetd_buf *buffer;      /* NULL with types from LNETD_LOST on */
	void *data;             /* of the buffer, from lnetd_register() */
	uint32_t type;          /* enum lnetd_event_type */
	uint32_t flags;         /* LNETD_FINAL and others */
	int32_t status;         /* 0 or -errno; -EPIPE and the like: the connection has ended, and the result is unknown */
	uint32_t offset;        /* of a message in the buffer, in bytes */
	uint32_t length;        /* bytes that were received; 0 where data was sent */
	uint32_t zero;          /* 0 */
	uint64_t time;          /* when it happened: CLOCK_MONOTONIC of lnetd, in ns; 0 if the library made the event */
	struct lnetd_addr peer; /* the sender of a message */
	uint64_t reserved[6];   /* 0 */
};

/*
 * lnetd_events takes up to most events, in their order, and returns how many. It does not block, and makes no system
 * call unless lnetd has events left that did not fit into the ring. 0 means that there are none at present. After
 * LNETD_DOWN was taken it returns the error of lnetd_process().
 */
LNETD_API int lnetd_events(lnetd_tm *tm, struct lnetd_event *events, int most);

/*
 * lnetd_pending returns 1 if there are events to take, otherwise 0. It costs a few loads, and may be called by any
 * thread at any time.
 */
LNETD_API int lnetd_pending(lnetd_tm *tm);

/*
 * lnetd_wait waits until there are events, and returns 1; 0 means that the time has passed. milliseconds: -1 has no
 * limit. Unless there are events already, it also processes the connection as lnetd_process() does, but only about every
 * 20 ms while events come. One thread at a time may wait for a TM, in lnetd_wait() or with lnetd_tm_arm(); others may
 * take the events, and submit. Errors: -EBUSY: another thread waits; -ETIMEDOUT: lnetd runs no longer, or hangs: it
 * has not answered (lnetd_set_patience()); the program may wait on, or use lnetd_ping() to end the connection; and
 * after LNETD_DOWN was taken, the errors of lnetd_process().
 */
LNETD_API int lnetd_wait(lnetd_tm *tm, int milliseconds);

/*
 * lnetd_tm_fd returns a descriptor for poll or epoll (for reading), instead of lnetd_wait(). Before each sleep call
 * lnetd_tm_arm(). It is the library's: do not read or close it. After LNETD_DOWN it remains readable: remove it. Sleep
 * on lnetd_fd() as well.
 */
LNETD_API int lnetd_tm_fd(const lnetd_tm *tm);

/*
 * lnetd_tm_arm returns 1 if there are events to take, and otherwise 0: then the descriptor becomes readable as soon as
 * there are any. It may also become readable without need. Call it for each sleep; it costs one system call. Errors:
 * after LNETD_DOWN was taken, those of lnetd_process().
 */
LNETD_API int lnetd_tm_arm(lnetd_tm *tm);

#ifdef __cplusplus
}
#endif

#endif
