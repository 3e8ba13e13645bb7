/* Many small buffers in one piece of memory. */
#include <lnetd.h>

/* make registers n buffers of size bytes, which stand one after the other. Their numbers come with each event. */
int make(lnetd *d, lnetd_buf **buffers, size_t n, size_t size)
{
	struct iovec range = { NULL, size };
	void *memory;
	int r = lnetd_alloc(d, n * size, &memory);

	for (size_t i = 0; i < n && r == 0; i++) {
		range.iov_base = (char *)memory + i * size;
		r = lnetd_register(d, &range, 1, (void *)i, &buffers[i]);
	}
	return r;
}
