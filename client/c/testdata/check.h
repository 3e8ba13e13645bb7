// Checks that the test programs share.
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lnetd.h"

static inline _Noreturn void __attribute__((format(printf, 2, 3))) fail(int line, const char *format, ...)
{
	va_list a;
	va_start(a, format);
	fprintf(stderr, "line %d: ", line);
	vfprintf(stderr, format, a);
	fprintf(stderr, "; last error: %s\n", lnetd_text());
	va_end(a);
	exit(1);
}

#define CHECK(condition, ...) do { if (!(condition)) fail(__LINE__, __VA_ARGS__); } while (0)
#define MUST(call) do { int result_ = (call); CHECK(result_ >= 0, "%s: %s", #call, lnetd_strerror(result_)); } while (0)
#define REFUSED(error, call) do { int result_ = (call); CHECK(result_ == -(error), "%s: %d, not %d", #call, result_, -(error)); } while (0)

#endif
