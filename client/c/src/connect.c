// Connecting to the control socket.
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

int lni_connect(const char *path, int patience)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int64_t end = lni_now() + (int64_t)patience * 1000000;
	if (strlen(path) >= sizeof to.sun_path)
		return lni_fail(EINVAL, "the path of the socket has more than %zu bytes: %.200s", sizeof to.sun_path - 1, path);
	memcpy(to.sun_path, path, strlen(path));
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return lni_fail(errno, "create a socket: %s", strerror(errno));
	while (connect(fd, (const struct sockaddr *)&to, sizeof to) < 0) {
		int e = errno;
		if (e == EINTR)
			continue;
		if (e == EAGAIN && lni_now() < end) { // lnetd's queue of connections is full
			const struct timespec pause = { .tv_nsec = 5000000 };
			nanosleep(&pause, NULL);
			continue;
		}
		close(fd);
		return lni_fail(e == EAGAIN ? ETIMEDOUT : e, "connect to lnetd at %s: %s", path, strerror(e));
	}
	return fd;
}
