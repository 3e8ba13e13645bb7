// Descriptors of passive buffers, which peers exchange (docs/spec/transport.md 6.6). lnetd does not see them.
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>

#include "internal.h"

struct small { // for a NID with an address of 4 bytes
	uint64_t match_bits, nid;
	uint32_t pid, portal, tmid, type;
	uint64_t size, checksum;
};

struct large { // for one of 16 bytes
	uint32_t magic, version;
	uint64_t match_bits;
	struct lnetd_nid nid;
	uint32_t pid, portal, type;
	uint64_t size, checksum;
};

_Static_assert(sizeof(struct small) == 48 && sizeof(struct large) == 64, "descriptors");

enum { MAGIC = 0x444d544c };

// checksum returns the exclusive-or of the words before the last one.
static uint64_t checksum(const void *descriptor, size_t size)
{
	uint64_t words[8], sum = 0;
	memcpy(words, descriptor, size);
	for (size_t i = 0; i < size / 8 - 1; i++)
		sum ^= words[i];
	return sum;
}

int lni_desc_make(struct lnetd_desc *out, const struct lnetd_addr *at, uint64_t match_bits, uint32_t type, uint64_t size)
{
	memset(out, 0, sizeof *out);
	if (at->nid.bytes[0]) {
		struct large d = { MAGIC, 1, match_bits, at->nid, at->pid, at->portal, type, size, 0 };
		d.checksum = checksum(&d, sizeof d);
		memcpy(out->bytes, &d, out->size = sizeof d);
		return 0;
	}
	struct small d = { match_bits, 0, at->pid, at->portal, at->tmid, type, size, 0 };
	for (int i = 0; i < 8; i++)
		d.nid = d.nid << 8 | at->nid.bytes[i];
	d.checksum = checksum(&d, sizeof d);
	memcpy(out->bytes, &d, out->size = sizeof d);
	return 0;
}

int lni_desc_read(const void *bytes, size_t length, struct lni_desc *d)
{
	memset(d, 0, sizeof *d);
	if (length == sizeof(struct small)) {
		struct small s;
		memcpy(&s, bytes, sizeof s);
		if (s.checksum != checksum(&s, sizeof s))
			return lni_fail(EINVAL, "the checksum of the descriptor is wrong");
		for (int i = 0; i < 8; i++)
			d->peer.nid.bytes[i] = (uint8_t)(s.nid >> (56 - 8 * i));
		d->peer.pid = s.pid;
		d->peer.portal = s.portal;
		d->peer.tmid = s.tmid;
		d->match_bits = s.match_bits;
		d->type = s.type;
		d->size = s.size;
		d->suits = d->peer.nid.bytes[0] == 0;
	} else if (length == sizeof(struct large)) {
		struct large l;
		memcpy(&l, bytes, sizeof l);
		if (l.magic != MAGIC || l.version != 1 || l.checksum != checksum(&l, sizeof l))
			return lni_fail(EINVAL, "the checksum, the magic number or the version of the descriptor is wrong");
		d->peer.nid = l.nid;
		d->peer.pid = l.pid;
		d->peer.portal = l.portal;
		d->peer.tmid = (uint32_t)(l.match_bits >> 52);
		d->match_bits = l.match_bits;
		d->type = l.type;
		d->size = l.size;
		d->suits = l.nid.bytes[0] != 0;
	} else {
		return lni_fail(EINVAL, "a descriptor has 48 or 64 bytes, not %zu", length);
	}
	if (d->type != DESC_IN && d->type != DESC_OUT)
		return lni_fail(EINVAL, "the type of the descriptor is invalid");
	return 0;
}

int lni_desc_check(const struct lni_desc *d)
{
	const struct lnetd_addr *peer = &d->peer;
	if (d->match_bits << 12 == 0 || d->match_bits >> 52 != peer->tmid || peer->tmid < 1 || peer->tmid >= LNETD_ANY_TM)
		return lni_fail(EINVAL, "the match bits of the descriptor are invalid");
	if (d->size == 0)
		return lni_fail(EINVAL, "the descriptor offers no bytes");
	if (d->size > MTU)
		return lni_fail(EFBIG, "the descriptor offers more than 1 MiB");
	if (!d->suits || !lni_nid_valid(&peer->nid) || !lni_pid_valid(peer->pid) || peer->portal < 1 || peer->portal > 63)
		return lni_fail(EINVAL, "the address in the descriptor is invalid");
	return 0;
}
