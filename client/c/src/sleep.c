// Sleeping on words in shared memory.
#define _GNU_SOURCE
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

void lni_sleep(_Atomic uint32_t *word, uint32_t value, int64_t time)
{
	const struct timespec t = { time / 1000000000, time % 1000000000 };
	syscall(SYS_futex, word, FUTEX_WAIT, value, &t, NULL, 0);
}

void lni_wake(_Atomic uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0); }
