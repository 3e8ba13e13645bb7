/* Sends one message, and waits until it was sent: hello NID:12345:PORTAL:TM */
#include <lnetd.h>
#include <stdio.h>
#include <string.h>

enum { SIZE = 4096, PATIENCE = 10000 };

/* say sends a text to a peer, and returns 0 or -errno. */
static int say(lnetd *d, const char *text, const struct lnetd_addr *peer)
{
	struct lnetd_addr me = { .pid = LNETD_PID, .portal = 34, .tmid = LNETD_ANY_TM };
	struct lnetd_event event;
	struct iovec range = { NULL, SIZE };
	lnetd_buf *buffer;
	lnetd_tm *tm;
	int r;

	if ((r = lnetd_nids(d, &me.nid, 1)) < 0 || (r = lnetd_tm_start(d, &me, 0, &tm)) < 0 ||
	    (r = lnetd_alloc(d, SIZE, &range.iov_base)) < 0 || (r = lnetd_register(d, &range, 1, NULL, &buffer)) < 0)
		return r;
	strncpy(range.iov_base, text, SIZE);
	if ((r = lnetd_send(tm, buffer, (uint32_t)strnlen(text, SIZE), peer)) < 0)
		return r;
	while ((r = lnetd_events(tm, &event, 1)) == 0)
		if ((r = lnetd_wait(tm, PATIENCE)) < 0)
			return r;
	return r < 0 ? r : event.status;
}

int main(int argc, char **argv)
{
	struct lnetd_addr peer;
	lnetd *d;
	int r;

	if (argc != 2 || lnetd_addr_parse(argv[1], &peer) < 0) {
		fprintf(stderr, "usage: hello NID:12345:PORTAL:TM\n");
		return 2;
	}
	if ((r = lnetd_open(&d, NULL, NULL, 0)) < 0) {
		fprintf(stderr, "hello: %s\n", lnetd_text());
		return 1;
	}
	r = say(d, "hello", &peer);
	if (r < 0)
		fprintf(stderr, "hello: %s\n", lnetd_strerror(r));
	lnetd_close(d); /* it also frees what say has made */
	return r < 0;
}
