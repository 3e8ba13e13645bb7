/* A server posts many buffers, and lnetd is woken once. */
#include <errno.h>
#include <lnetd.h>

/* post makes n buffers receive a message of up to longest bytes each. It returns how many do, or -errno. */
int post(lnetd_tm *tm, lnetd_buf **buffers, int n, uint32_t longest)
{
	int posted = 0, r = lnetd_begin(tm), end;

	if (r < 0)
		return r;
	while (posted < n && (r = lnetd_recv(tm, buffers[posted], longest, 1)) == 0)
		posted++;
	end = lnetd_commit(tm);
	if (r < 0 && r != -EAGAIN) /* after -EAGAIN the caller can post the others later */
		return r;
	return end < 0 ? end : posted;
}
