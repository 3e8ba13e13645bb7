// Texts of NIDs and addresses.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

// Types of nets that have names. The first name that begins a text determines its type.
static const struct type {
	const char *name;
	uint8_t type;
	bool ipv4, ipv6; // otherwise addresses are numbers
} types[] = {
	{ "lo", 9, false, false },    { "tcp", 2, true, true },    { "o2ib", 5, true, true },
	{ "gni", 13, false, false },  { "gip", 14, true, false },  { "ptlf", 15, false, false },
	{ "kfi", 16, false, false },  { "efa", 18, true, true },   { "bxi3f", 19, false, false },
};

enum { TYPE_LO = 9, TYPE_ANY = 255, LARGE = 12 };

static const struct type *type_of(uint8_t number)
{
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (types[i].type == number)
			return &types[i];
	return NULL;
}

bool lni_nid_zero(const struct lnetd_nid *nid)
{
	static const struct lnetd_nid none;
	return memcmp(nid, &none, sizeof none) == 0;
}

bool lni_nid_valid(const struct lnetd_nid *nid)
{
	static const uint8_t zeros[12];
	const uint8_t *b = nid->bytes;
	if (lni_nid_zero(nid) || b[1] == TYPE_ANY)
		return false;
	return b[0] == LARGE || (b[0] == 0 && memcmp(b + 8, zeros, sizeof zeros) == 0);
}

bool lni_pid_valid(uint32_t pid)
{
	return pid == LNETD_PID || pid >> 28 == 8;
}

// number reads digits in a base from *text on, and moves *text behind them. It has at most 10.
static bool number(const char **text, unsigned base, uint64_t most, uint32_t *out)
{
	uint64_t v = 0;
	int digits = 0;
	for (;; digits++) {
		char c = **text;
		unsigned digit = c >= '0' && c <= '9' ? (unsigned)(c - '0') : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10 :
			c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10 : 16;
		if (digit >= base)
			break;
		if (digits >= 10)
			return false;
		v = v * base + digit;
		++*text;
	}
	*out = (uint32_t)v;
	return digits > 0 && v <= most;
}

// parse_net reads the name of a net, and sets the type and the number of nid.
static bool parse_net(const char *text, struct lnetd_nid *nid)
{
	uint32_t type = 0, net = 0;
	if (*text == '<') {
		text++;
		if (!number(&text, 10, TYPE_ANY - 1, &type) || type == 0 || type_of((uint8_t)type) || *text++ != ':' ||
		    !number(&text, 10, UINT16_MAX, &net) || strcmp(text, ">") != 0)
			return false;
	} else {
		size_t i = 0;
		while (i < sizeof types / sizeof *types && strncmp(text, types[i].name, strlen(types[i].name)) != 0)
			i++;
		if (i == sizeof types / sizeof *types)
			return false;
		type = types[i].type;
		text += strlen(types[i].name);
		if (*text && (type == TYPE_LO || !number(&text, 10, UINT16_MAX, &net) || *text))
			return false;
	}
	nid->bytes[1] = (uint8_t)type;
	nid->bytes[2] = (uint8_t)(net >> 8);
	nid->bytes[3] = (uint8_t)net;
	return true;
}

static void put32(uint8_t *b, uint32_t v)
{
	v = htonl(v);
	memcpy(b, &v, sizeof v);
}

static uint32_t get32(const uint8_t *b)
{
	uint32_t v;
	memcpy(&v, b, sizeof v);
	return ntohl(v);
}

// parse_ipv4 reads four decimal numbers joined by dots.
static bool parse_ipv4(const char *text, uint8_t *b)
{
	for (int i = 0; i < 4; i++) {
		const char *from = text;
		uint32_t v;
		if (!number(&text, 10, 255, &v) || text - from > 3 || *text != (i < 3 ? '.' : 0))
			return false;
		b[i] = (uint8_t)v;
		text++;
	}
	return true;
}

// parse_words reads the numbers of an address that is not an IP address.
static bool parse_words(const char *text, struct lnetd_nid *nid)
{
	for (int i = 0; i < 4; i++) {
		uint32_t v;
		if (!number(&text, 16, UINT32_MAX, &v) || *text != (i < 3 ? ':' : 0))
			return false;
		put32(nid->bytes + 4 + 4 * i, v);
		text++;
	}
	nid->bytes[0] = LARGE;
	return true;
}

static bool parse_nid(const char *text, struct lnetd_nid *nid)
{
	char address[LNETD_NID_TEXT];
	const char *at = strchr(text, '@'), *rest = address;
	size_t length = at ? (size_t)(at - text) : strlen(text);
	uint32_t v;
	memset(nid, 0, sizeof *nid);
	if (length >= sizeof address || !parse_net(at ? at + 1 : "tcp", nid))
		return false;
	memcpy(address, text, length);
	address[length] = 0;
	const struct type *t = type_of(nid->bytes[1]);
	if (nid->bytes[1] == TYPE_LO)
		return strcmp(address, "0") == 0;
	if (t && t->ipv6 && strchr(address, ':')) {
		nid->bytes[0] = LARGE;
		return inet_pton(AF_INET6, address, nid->bytes + 4) == 1;
	}
	if (t && t->ipv4)
		return parse_ipv4(address, nid->bytes + 4);
	if (strchr(address, ':'))
		return parse_words(address, nid);
	unsigned base = t ? 10 : 16;
	if (t && address[0] == '0' && (address[1] == 'x' || address[1] == 'X')) {
		rest += 2;
		base = 16;
	}
	if (!number(&rest, base, UINT32_MAX, &v) || *rest)
		return false;
	put32(nid->bytes + 4, v);
	return true;
}

int lnetd_nid_parse(const char *text, struct lnetd_nid *nid)
{
	if (!parse_nid(text, nid))
		return lni_fail(EINVAL, "\"%.*s\" is not a NID such as 10.0.0.1@tcp", LNETD_NID_TEXT, text);
	return 0;
}

int lnetd_nid_print(const struct lnetd_nid *nid, char *text, size_t size)
{
	const uint8_t *b = nid->bytes;
	char address[INET6_ADDRSTRLEN] = "", net[32];
	if (!lni_nid_valid(nid))
		return lni_fail(EINVAL, "the bytes are not a NID");
	const struct type *t = type_of(b[1]);
	unsigned n = (unsigned)b[2] << 8 | b[3];
	if (b[0] == LARGE && t && t->ipv6)
		inet_ntop(AF_INET6, b + 4, address, sizeof address);
	else if (b[0] == LARGE)
		snprintf(address, sizeof address, "%x:%x:%x:%x", get32(b + 4), get32(b + 8), get32(b + 12), get32(b + 16));
	else if (t && t->ipv4)
		inet_ntop(AF_INET, b + 4, address, sizeof address);
	else
		snprintf(address, sizeof address, t ? "%u" : "%x", get32(b + 4));
	if (!t)
		snprintf(net, sizeof net, "<%u:%u>", b[1], n);
	else if (n)
		snprintf(net, sizeof net, "%s%u", t->name, n);
	else
		snprintf(net, sizeof net, "%s", t->name);
	int length = snprintf(text, size, "%s@%s", address, net);
	if (length < 0 || (size_t)length >= size)
		return lni_fail(ENOSPC, "the text of a NID needs %d bytes", length + 1);
	return 0;
}

int lnetd_addr_parse(const char *text, struct lnetd_addr *addr)
{
	char nid[LNETD_NID_TEXT];
	const char *at = strchr(text, '@'), *rest = at ? strchr(at, ':') : NULL;
	if (at && at[1] == '<') // the name of the net has a colon
		rest = strchr(at, '>') ? strchr(strchr(at, '>'), ':') : NULL;
	size_t length = rest ? (size_t)(rest - text) : sizeof nid;
	memset(addr, 0, sizeof *addr);
	if (length < sizeof nid) {
		memcpy(nid, text, length);
		nid[length] = 0;
		if (parse_nid(nid, &addr->nid) && *rest++ == ':' && number(&rest, 10, UINT32_MAX, &addr->pid) && *rest++ == ':' &&
		    number(&rest, 10, UINT32_MAX, &addr->portal) && *rest++ == ':') {
			if (strcmp(rest, "*") == 0) {
				addr->tmid = LNETD_ANY_TM;
				return 0;
			}
			if (number(&rest, 10, LNETD_ANY_TM - 1, &addr->tmid) && addr->tmid > 0 && *rest == 0)
				return 0;
		}
	}
	return lni_fail(EINVAL, "\"%.*s\" is not an address such as 10.0.0.1@tcp:12345:34:7", LNETD_ADDR_TEXT, text);
}

int lnetd_addr_print(const struct lnetd_addr *addr, char *text, size_t size)
{
	char nid[LNETD_NID_TEXT], tm[16] = "*";
	int result = lnetd_nid_print(&addr->nid, nid, sizeof nid);
	if (result < 0)
		return result;
	if (addr->tmid != LNETD_ANY_TM)
		snprintf(tm, sizeof tm, "%u", addr->tmid);
	int length = snprintf(text, size, "%s:%u:%u:%s", nid, addr->pid, addr->portal, tm);
	if (length < 0 || (size_t)length >= size)
		return lni_fail(ENOSPC, "the text of an address needs %d bytes", length + 1);
	return 0;
}
