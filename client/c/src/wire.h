// Records of the control socket and entries of the rings, as docs/transport-protocol.md has them. On a little-endian
// machine the structures have neither padding nor other numbers.
#ifndef LNETD_WIRE_H
#define LNETD_WIRE_H

#include "lnetd.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the structures are as on the wire");

enum opcode {
	OP_HELLO = 1,
	OP_NIDS_GET,
	OP_AREA_ADD,
	OP_AREA_DEL,
	OP_BUF_REGISTER,
	OP_BUF_DEREGISTER,
	OP_TM_START,
	OP_TM_STOP,
	OP_STATS_GET,
	OP_NOP,
	OP_NOTICE = 64
};

enum {
	RECORD_MAGIC = 0x444e544c,
	RING_MAGIC = 0x474e4952,
	RECORD_SIZE = 16384, // largest record
	TEXT_SIZE = 1024,    // longest text of a failure or notice
	MOST_NIDS = 817,
	MOST_FDS = 3, // with one record
};

// Features.
#define FEATURE_POLLING ((uint64_t)1 << 1)
#define FEATURE_OVERFLOW ((uint64_t)1 << 2)
#define FEATURE_POSTED ((uint64_t)1 << 5)
#define FEATURE_MATCH_BITS ((uint64_t)1 << 6)
#define FEATURE_FUTEX ((uint64_t)1 << 7)

struct wire_header {
	uint32_t magic;
	uint16_t version, opcode;
	uint32_t length, sequence;
	int32_t status;
	uint32_t zero;
};

struct wire_hello {
	uint16_t lowest, highest;
	uint32_t zero;
	uint64_t wanted, required;
	char program[32];
};

struct wire_hello_reply {
	uint16_t version, zero1;
	uint32_t zero2;
	uint64_t features, buffer_size, range_size;
	uint32_t ranges, descriptor_size, tms, buffers, areas, completions;
	uint64_t memory, incarnation, now, connection;
};

struct wire_nids {
	uint32_t count;
	struct lnetd_nid nids[MOST_NIDS];
};

struct wire_area_add {
	uint64_t size, zero;
};

struct wire_range {
	uint32_t area, length;
	uint64_t offset;
};

enum { MOST_RANGES = (RECORD_SIZE - 24 - 8) / 16 };

struct wire_buf_register {
	uint32_t count, zero;
	struct wire_range ranges[MOST_RANGES];
};

struct wire_buf_name {
	uint32_t index, generation;
};

struct wire_tm_start {
	struct lnetd_nid nid;
	uint32_t pid, portal, tmid, completions, zero;
};

struct wire_tm_start_reply {
	uint32_t handle, tmid, completions, submissions, credits, zero;
	uint64_t match_bits;
};

struct wire_notice {
	uint32_t kind;
	int32_t value;
	char text[TEXT_SIZE];
};

enum { NOTICE_ENDING = 1, NOTICE_CUT_OFF = 2, NOTICE_DESCRIPTORS = 3 };

struct wire_ring {
	uint32_t magic;
	uint16_t version, header_size;
	uint32_t sq_offset, sq_entries, cq_offset, cq_entries;
	uint16_t submission_size, completion_size;
};

// Offsets of the shared words in the ring file.
enum {
	WORD_SQ_TAIL = 64,
	WORD_SQ_HEAD = 128,
	WORD_CQ_TAIL = 192,
	WORD_CQ_HEAD = 256,
	WORD_SQ_SLEEPING = 320,
	WORD_CQ_SLEEPING = 384,
	WORD_SQ_POSTED = 576,
	WORD_SQ_WAITING = 640,
	WORD_CQ_OVERFLOW = 704,
};

// Values of WORD_SQ_SLEEPING and WORD_CQ_SLEEPING: how a side sleeps. ON_WORD needs FEATURE_FUTEX.
enum sleeping { AWAKE, AT_DESCRIPTOR, ON_WORD };

enum { SUBMIT_CANCEL = 7 }; // opcodes 1 to 6 are those of enum lnetd_event_type

struct wire_submission {
	uint8_t opcode, flags;
	uint16_t zero1;
	uint32_t buffer, generation, operation;
	uint64_t match_bits;
	uint32_t length, longest, messages, zero2;
	struct lnetd_addr peer;
	uint8_t zero3[56];
};

enum { COMPLETION_FINAL = 1, COMPLETION_REJECTED = 2, COMPLETION_TM = 4 };

struct wire_completion {
	uint32_t buffer, generation, operation;
	int32_t status;
	uint32_t length, offset;
	uint64_t time;
	struct lnetd_nid sender;
	uint32_t pid;
	uint16_t portal, tmid;
	uint8_t flags, zero[3];
};

_Static_assert(sizeof(struct wire_header) == 24, "header");
_Static_assert(sizeof(struct wire_hello) == 56 && sizeof(struct wire_hello_reply) == 88, "HELLO");
_Static_assert(sizeof(struct wire_nids) == 4 + 20 * MOST_NIDS && sizeof(struct wire_area_add) == 16, "records");
_Static_assert(sizeof(struct wire_range) == 16 && sizeof(struct wire_buf_name) == 8, "records");
_Static_assert(sizeof(struct wire_tm_start) == 40 && sizeof(struct wire_tm_start_reply) == 32, "TM_START");
_Static_assert(sizeof(struct wire_ring) == 28 && sizeof(struct lnetd_addr) == 32, "ring");
_Static_assert(sizeof(struct wire_submission) == 128 && sizeof(struct wire_completion) == 64, "entries");

#endif
