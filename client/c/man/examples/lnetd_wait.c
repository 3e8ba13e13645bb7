/* An event loop with poll(2). */
#include <lnetd.h>
#include <poll.h>

/* run calls handle for each event, and returns -errno when the connection has ended. */
int run(lnetd *d, lnetd_tm *tm, void (*handle)(const struct lnetd_event *event))
{
	struct lnetd_event events[64];

	for (;;) {
		struct pollfd p[2] = { { lnetd_fd(d), POLLIN, 0 }, { lnetd_tm_fd(tm), POLLIN, 0 } };
		int n = lnetd_events(tm, events, 64);
		if (n < 0)
			return n;
		for (int i = 0; i < n; i++)
			handle(&events[i]);
		if (n > 0 || lnetd_tm_arm(tm) != 0)
			continue;
		poll(p, 2, -1);
		if (p[0].revents)
			lnetd_process(d); /* LNETD_DOWN comes if the connection has ended */
	}
}
