// Texts of errors, and the clock.
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "internal.h"

static _Thread_local char last[REASON_SIZE + 256];

const char *lnetd_text(void) { return last; }

int lni_fail(int error, const char *format, ...)
{
	va_list a;
	va_start(a, format);
	vsnprintf(last, sizeof last, format, a);
	va_end(a);
	return error < 0 ? error : -error;
}

void lni_printable(char *out, const char *text, size_t length)
{
	if (length > TEXT_SIZE)
		length = TEXT_SIZE;
	for (size_t i = 0; i < length; i++)
		out[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
	out[length] = 0;
}

int64_t lni_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static const struct {
	int error;
	const char *text;
} texts[] = {
	{ 0, "success" },
	{ EACCES, "not permitted by the rules of lnetd, or by the socket" },
	{ EADDRINUSE, "the address is in use" },
	{ EADDRNOTAVAIL, "no number of a TM is free" },
	{ EAGAIN, "try again" },
	{ EBADR, "lnetd has no such object" },
	{ EBUSY, "in use" },
	{ ECANCELED, "cancelled" },
	{ ECONNABORTED, "lnetd's administrator has disconnected the program" },
	{ ECONNREFUSED, "no lnetd listens on the socket" },
	{ EDQUOT, "a quota of lnetd is used up" },
	{ EFAULT, "memory of the buffer cannot be accessed" },
	{ EFBIG, "too large" },
	{ EHOSTUNREACH, "the peer's node cannot be reached" },
	{ EINVAL, "invalid argument" },
	{ EIO, "input or output failed" },
	{ EMFILE, "too many open files" },
	{ ENOBUFS, "a message was lost" },
	{ ENOENT, "no such socket or address" },
	{ ENOMEM, "not enough memory" },
	{ ENOSPC, "no room" },
	{ EOPNOTSUPP, "lnetd does not support this" },
	{ EPERM, "not permitted" },
	{ EPIPE, "lnetd has died" },
	{ EPROTO, "a violation of the protocol" },
	{ ESHUTDOWN, "lnetd has stopped" },
	{ ETIMEDOUT, "no answer in time" },
};

const char *lnetd_strerror(int result)
{
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		if (texts[i].error == result || texts[i].error == -(int64_t)result)
			return texts[i].text;
	return "an error of the system";
}
