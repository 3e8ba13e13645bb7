// A client that survives the end of lnetd:
//
//	restart SOCKET N    prints "up" when its operations are in progress, and N times connects again after lnetd has ended
//	restart -t SOCKET N the same, with messages in both directions all the time
//	restart -h SOCKET   prints "up", waits until it reports that lnetd hangs, prints "hangs", and waits until it answers again
//
// Then it sends a message to itself and prints "ok".
#define _GNU_SOURCE
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { SIZE = 65536, MESSAGE = 256, PATIENCE = 60000 };

static lnetd *domain;
static lnetd_tm *tm;
static struct lnetd_addr me;
static lnetd_buf *in, *passive, *out;
static unsigned open_operations;

static lnetd_buf *buffer(void *memory)
{
	struct iovec v = { memory, SIZE };
	lnetd_buf *b;
	MUST(lnetd_register(domain, &v, 1, memory, &b));
	return b;
}

// submit begins operations in a batch that ends with the connection.
static void submit(void)
{
	struct lnetd_desc desc;
	MUST(lnetd_begin(tm));
	MUST(lnetd_recv(tm, in, MESSAGE, 100));
	MUST(lnetd_offer(tm, passive, LNETD_IN, 0, &desc));
	open_operations = 2;
	MUST(lnetd_sync(tm, PATIENCE));
	puts("up");
	fflush(stdout);
}

// send sends the next message to itself. If lnetd has ended, an event will say so.
static void send(void) { open_operations += lnetd_send(tm, out, MESSAGE, &me) == 0; }

// play processes events until lnetd has ended, or, if no messages are sent all the time, until a message has come.
static bool play(bool traffic)
{
	bool sent = false;
	for (;;) {
		struct lnetd_event e;
		int n = lnetd_events(tm, &e, 1);
		MUST(n);
		if (n == 0) {
			int r = lnetd_wait(tm, PATIENCE);
			CHECK(r != 0, "nothing happens");
			MUST(r);
			continue;
		}
		open_operations -= e.flags & LNETD_FINAL ? 1 : 0;
		if (e.type == LNETD_DOWN) {
			CHECK(e.status < 0 && open_operations == 0, "%u operations have no final event", open_operations);
			REFUSED(-e.status, lnetd_events(tm, &e, 1));
			REFUSED(-e.status, lnetd_send(tm, out, MESSAGE, &me));
			REFUSED(-e.status, lnetd_begin(tm));
			REFUSED(-e.status, lnetd_commit(tm));
			return true;
		}
		if (e.flags & LNETD_MESSAGE && !traffic)
			return false;
		if (e.type == LNETD_RECV && e.status == 0 && e.flags & LNETD_FINAL && lnetd_recv(tm, in, MESSAGE, 100) == 0)
			open_operations++;
		if (e.type == LNETD_SEND && e.status == 0)
			send();
		if (e.type == LNETD_ENDING && !sent && !traffic)
			sent = true; // the program would finish what it does
	}
}

static void reconnect(void)
{
	struct timespec pause = { .tv_nsec = 5000000 };
	while (lnetd_reopen(domain) < 0) {
		nanosleep(&pause, NULL);
		if (pause.tv_nsec < 200000000)
			pause.tv_nsec *= 2;
	}
}

static void hang(void)
{
	int r;
	MUST(lnetd_set_patience(domain, 100));
	while ((r = lnetd_wait(tm, PATIENCE)) != -ETIMEDOUT)
		MUST(r);
	puts("hangs");
	fflush(stdout);
	while ((r = lnetd_wait(tm, 50)) == -ETIMEDOUT) // lnetd may answer late
		;
	MUST(r);
	MUST(lnetd_set_patience(domain, PATIENCE));
	MUST(lnetd_ping(domain));
}

int main(int argc, char **argv)
{
	bool traffic = argc == 4 && strcmp(argv[1], "-t") == 0, hangs = argc == 3 && strcmp(argv[1], "-h") == 0;
	CHECK(argc == 3 || traffic, "usage: restart [-t] SOCKET N | restart -h SOCKET");
	int rounds = hangs ? 0 : atoi(argv[argc - 1]);
	uint8_t *memory;
	void *m;
	MUST(lnetd_open(&domain, argv[hangs || traffic ? 2 : 1], NULL, 0));
	me = (struct lnetd_addr){ .pid = LNETD_PID, .portal = 34, .tmid = 9 };
	CHECK(lnetd_nids(domain, &me.nid, 1) >= 1, "lnetd has no NIDs");
	MUST(lnetd_alloc(domain, 3 * SIZE, &m));
	memory = m;
	in = buffer(memory);
	passive = buffer(memory + SIZE);
	out = buffer(memory + 2 * SIZE);
	memset(memory + 2 * SIZE, 77, SIZE);
	MUST(lnetd_tm_start(domain, &me, 0, &tm));
	submit();
	if (hangs)
		hang();
	for (int i = 0; i < rounds; i++) {
		if (traffic)
			send();
		CHECK(play(traffic), "a message comes");
		reconnect();
		submit();
	}
	send();
	CHECK(!play(false), "lnetd has ended once more");
	MUST(lnetd_commit(tm));
	REFUSED(EINVAL, lnetd_commit(tm));
	CHECK(memory[2 * SIZE] == 77 && memory[0] == 77, "the content of the memory is lost");
	lnetd_close(domain);
	puts("ok");
	return 0;
}
