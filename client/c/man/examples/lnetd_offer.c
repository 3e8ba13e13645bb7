/* One side offers a buffer and sends the descriptor; the other side fetches the data. */
#include <lnetd.h>
#include <string.h>

/* offer lets a peer fetch a buffer. The message buffer has room for a descriptor. */
int offer(lnetd_tm *tm, lnetd_buf *data, lnetd_buf *message, const struct lnetd_addr *peer)
{
	struct lnetd_desc desc;
	int r = lnetd_offer(tm, data, LNETD_OUT, (uint32_t)lnetd_buf_size(data), &desc);

	if (r < 0)
		return r;
	memcpy(lnetd_at(message, 0, NULL), desc.bytes, desc.size);
	return lnetd_send(tm, message, desc.size, peer);
}

/* fetch fetches what the sender of a message offers. */
int fetch(lnetd_tm *tm, lnetd_buf *into, const struct lnetd_event *message)
{
	return lnetd_move(tm, into, LNETD_IN, 0, lnetd_at(message->buffer, message->offset, NULL), message->length);
}
