package socklnd

import (
	"fmt"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/peering"
)

// errFaulty is the cause when a connection is closed because the memory of a message became unreadable while
// the message was being written, so that it cannot be completed.
var errFaulty = fmt.Errorf("%w: the memory of a message became inaccessible while the message was being sent", lnd.ErrDisconnected)

// dropFaulty is called after a write has failed with EFAULT: the payload of a message in the batch can no
// longer be read, because the program that owns the memory has taken it away. dropFaulty fails the messages
// with such a payload; all other messages are still sent. It returns an error, which ends the connection, if
// a part of such a message has already been written, because the peer expects the rest of it. It also returns
// an error if it finds no such message. The caller has the writer's role.
func (c *conn) dropFaulty() error {
	w := &c.w
	if w.first == w.n {
		return errFaulty
	}
	faulty := make(map[*lnd.Tx]error)
	for k := w.first; k < w.n; k++ {
		m := w.batch[k].m
		if f := m.Payload.Check(); f != nil {
			faulty[m] = c.peer.i.Error("send", c.peer.ID.NID, lnd.StatusLocalError, f)
		}
	}
	if first := w.batch[w.first].m; len(faulty) == 0 || faulty[first] != nil && w.start(w.first) < w.wrote {
		if err := faulty[first]; err != nil {
			w.batch[w.first].m = nil
			w.first++
			c.peer.i.Out.Add(peering.Failed(first, err))
		}
		return errFaulty
	}
	c.mu.Lock()
	if c.dead {
		c.mu.Unlock()
		return errFaulty // the goroutine that closed the connection has recorded the cause
	}
	c.requeueUnwritten()
	back := c.withdraw(func(m *lnd.Tx) bool { return faulty[m] != nil })
	c.mu.Unlock()
	for _, m := range back {
		c.peer.i.Out.Add(peering.Failed(m, faulty[m]))
	}
	return nil
}
