package socklnd

import (
	"slices"
	"time"

	"github.com/lnetd/lnetd/lnd"
)

// Recall implements peering.Member.
func (p *peer) Recall(match func(*lnd.Tx) bool) (back []*lnd.Tx) {
	for _, c := range p.established() {
		back = append(back, c.recall(match)...)
	}
	return back
}

// Renew implements peering.Member. The reaper restarts the timeouts of connections.
func (p *peer) Renew(time.Time) { p.linkUps.Add(1) }

// established returns the connections that carry messages.
func (p *peer) established() []*conn {
	p.Lock()
	defer p.Unlock()
	return slices.DeleteFunc(slices.Clone(p.conns), func(c *conn) bool { return c.reserved })
}

// recall removes and returns the matching queued messages. It also wakes a drainer, to return those in
// its batch that have not been started.
func (c *conn) recall(match func(*lnd.Tx) bool) []*lnd.Tx {
	c.mu.Lock()
	if c.dead {
		c.mu.Unlock()
		return nil
	}
	back := c.withdraw(match)
	writing := c.writing
	if writing {
		c.recalling = match
	}
	c.mu.Unlock()
	if writing {
		_ = c.stream.SetWriteDeadline(time.Now()) // fails only on a closed stream, whose queue has already failed
	}
	return back
}

// withdraw removes and returns the matching messages of the queue. mu is held.
func (c *conn) withdraw(match func(*lnd.Tx) bool) []*lnd.Tx {
	back := c.queued.withdraw(match)
	for _, m := range back {
		c.queuedBytes.Add(-int64(m.Payload.Length + c.version.Overhead()))
	}
	return back
}

// executeRecall executes a pending recall for the holder of the writer's role, whose stream is full.
func (c *conn) executeRecall() error {
	if err := c.stream.SetWriteDeadline(time.Time{}); err != nil {
		return err
	}
	var back []*lnd.Tx
	c.mu.Lock()
	match := c.recalling
	c.recalling = nil
	if match != nil && !c.dead {
		c.requeueUnwritten()
		back = c.withdraw(match)
	}
	c.mu.Unlock()
	c.peer.i.PutRecalled(back)
	c.peer.i.Out.Run()
	return nil
}

// requeueUnwritten moves the messages of the batch of which no byte was written back to the queue. The caller has
// the writer's role and holds mu.
func (c *conn) requeueUnwritten() {
	w := &c.w
	k := w.first
	for k < w.n && w.start(k) < w.wrote {
		k++
	}
	if k == w.n {
		return
	}
	for j := w.n - 1; j >= k; j-- {
		c.queued.pushFront(w.batch[j])
		w.batch[j] = nil
	}
	w.n, w.total = k, w.start(k)
	w.rest = truncate(w.rest, w.total-w.wrote)
	if k == 0 && w.cookie != 0 { // another message will carry it
		c.acks.Add(w.cookie)
		w.cookie = 0
	}
}

// truncate keeps the first n bytes of bufs and drops empty buffers, since a write of 0 bytes looks like
// a full stream.
func truncate(bufs [][]byte, n int) [][]byte {
	if n == 0 {
		return nil
	}
	for k, b := range bufs {
		if n <= len(b) {
			bufs[k] = b[:n]
			return bufs[:k+1]
		}
		n -= len(b)
	}
	return bufs
}
