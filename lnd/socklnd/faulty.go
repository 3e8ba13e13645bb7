package socklnd

import (
	"fmt"

	"github.com/lnetd/lnetd/lnd"
)

// errFaulty closes connections on which a message has begun that cannot be completed.
var errFaulty = fmt.Errorf("%w: the payload of a message is gone that was being written", lnd.ErrDisconnected)

// dropFaulty takes those messages out of the batch whose payload cannot be read any more:
// its memory is the program's, and a write has failed with EFAULT. The others go on. If a
// byte of such a message was written nothing else can follow, and the error is what the
// connection ends for; so it is if no such message is found. The caller holds the role.
func (c *conn) dropFaulty() error {
	w := &c.w
	if w.first == w.n {
		return errFaulty
	}
	faulty := make(map[*lnd.Tx]error)
	for _, m := range w.batch[w.first:w.n] {
		if f := m.Payload.Check(); f != nil {
			faulty[m] = messageError("send", c.peer.id.NID, lnd.StatusLocalError, f)
		}
	}
	if first := w.batch[w.first]; len(faulty) == 0 || faulty[first] != nil && w.start(w.first) < w.wrote {
		if err := faulty[first]; err != nil {
			w.batch[w.first] = nil
			w.first++
			c.peer.i.failures.add(first, err)
		}
		return errFaulty
	}
	c.mu.Lock()
	if c.dead {
		c.mu.Unlock()
		return errFaulty // and who has closed it has said why
	}
	c.unfill()
	back := c.withdraw(func(m *lnd.Tx) bool { return faulty[m] != nil })
	c.mu.Unlock()
	for _, m := range back {
		c.peer.i.failures.add(m, faulty[m])
	}
	return nil
}
