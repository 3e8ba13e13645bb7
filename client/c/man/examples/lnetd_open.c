/* After lnetd has ended, connect to the next one. All events up to LNETD_DOWN were taken. */
#include <lnetd.h>
#include <stdio.h>
#include <unistd.h>

void again(lnetd *d)
{
	unsigned pause = 100000; /* microseconds */

	while (lnetd_reopen(d) < 0) {
		fprintf(stderr, "%s\n", lnetd_text());
		usleep(pause);
		pause = pause < 3200000 ? 2 * pause : 6400000;
	}
}
