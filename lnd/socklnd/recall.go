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

// Renew implements peering.Member. It only counts; the reaper notices that and restarts the timeouts of the
// peer's connections (progress.restartIf).
func (p *peer) Renew(time.Time) { p.linkUps.Add(1) }

// established returns the connections that carry messages.
func (p *peer) established() []*conn {
	p.Lock()
	defer p.Unlock()
	return slices.DeleteFunc(slices.Clone(p.conns), func(c *conn) bool { return c.reserved })
}

// recall removes and returns the queued messages for which match returns true. If a goroutine has the writer's
// role, recall also makes it return such messages of its batch of which no byte has been written
// (executeRecall).
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

// withdraw removes the messages for which match returns true from the queue and returns them. mu is held.
func (c *conn) withdraw(match func(*lnd.Tx) bool) []*lnd.Tx {
	back := c.queued.withdraw(match)
	for _, m := range back {
		c.queuedBytes.Add(-int64(m.Payload.Length + c.version.Overhead()))
	}
	return back
}

// executeRecall executes a pending recall: it removes the matching messages of which no byte has been written
// from the batch and the queue, and completes them. The caller has the writer's role. recall has interrupted
// its wait for a full stream.
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

// requeueUnwritten moves the messages of which no byte has been written from the batch back to the front of the
// queue. The caller has the writer's role and holds mu.
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
		c.queued.pushFront(w.batch[j].m)
		w.batch[j].m = nil
	}
	w.n, w.total = k, w.start(k)
	w.rest = truncate(w.rest, w.total-w.wrote)
	if k == 0 && w.cookie != 0 { // the message with the cookie was moved; another frame will carry it
		c.acks.Add(w.cookie)
		w.cookie = 0
	}
}

// truncate returns the first n bytes of bufs. It returns no empty buffer at the end, because a write of 0 bytes
// looks like a full stream.
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
