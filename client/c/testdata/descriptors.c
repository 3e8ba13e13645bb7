// Moves what a file of descriptors offers:
//
//	descriptors SOCKET FILE  each line is DIRECTION LENGTH RESULT DESCRIPTOR, where RESULT is that of lnetd_move
//
// A valid descriptor leads to a TM that does not exist, so its operation ends with an error.
#include "check.h"

enum { SIZE = 4096 };

// unhex decodes pairs of digits, and returns their number.
static size_t unhex(const char *digits, uint8_t *bytes)
{
	size_t n = strlen(digits) / 2;
	for (size_t i = 0; i < n; i++) {
		unsigned byte;
		CHECK(sscanf(digits + 2 * i, "%2x", &byte) == 1, "no digits: %s", digits);
		bytes[i] = (uint8_t)byte;
	}
	return n;
}

int main(int argc, char **argv)
{
	lnetd *d;
	lnetd_tm *tm;
	lnetd_buf *b;
	void *memory;
	struct lnetd_addr me = { .pid = LNETD_PID, .portal = 34, .tmid = LNETD_ANY_TM };
	CHECK(argc == 3, "usage: descriptors SOCKET FILE");
	MUST(lnetd_open(&d, argv[1], NULL, 0));
	CHECK(lnetd_nids(d, &me.nid, 1) >= 1, "lnetd has no NIDs");
	MUST(lnetd_alloc(d, SIZE, &memory));
	MUST(lnetd_register(d, &(struct iovec){ memory, SIZE }, 1, NULL, &b));
	MUST(lnetd_tm_start(d, &me, 16, &tm));

	FILE *f = fopen(argv[2], "r");
	CHECK(f, "no file");
	char digits[256];
	unsigned direction, length, lines = 0;
	int want;
	for (; fscanf(f, "%u %u %d %255s", &direction, &length, &want, digits) == 4; lines++) {
		uint8_t bytes[sizeof digits / 2];
		size_t size = unhex(digits, bytes);
		int result = lnetd_move(tm, b, direction, length, bytes, size);
		CHECK(result == want, "line %u: %d, not %d: %s", lines + 1, result, want, digits);
		if (result < 0)
			continue;
		struct lnetd_event e;
		MUST(lnetd_wait(tm, 60000));
		CHECK(lnetd_events(tm, &e, 1) == 1 && e.status < 0, "line %u: the operation did not fail", lines + 1);
	}
	CHECK(feof(f) && lines > 0, "line %u cannot be read", lines + 1);
	fclose(f);
	lnetd_close(d);
	puts("ok");
	return 0;
}
