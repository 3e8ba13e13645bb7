package peering

import (
	"time"

	"github.com/lnetd/lnetd/lnd"
)

// Waiter is a message that waits for a connection.
type Waiter struct {
	M     *lnd.Tx
	Since time.Time // when the message began to wait, or when Renew was last called
}

// Waiting holds the messages that wait for a connection to a peer, oldest first. The zero value holds
// none. The peer's lock guards it.
type Waiting struct {
	list    []Waiter
	cancels int // number of calls of Cancel so far
}

// Add appends a message.
func (w *Waiting) Add(m *lnd.Tx, now time.Time) { w.list = append(w.list, Waiter{m, now}) }

// Len returns the number of messages.
func (w *Waiting) Len() int { return len(w.list) }

// Since returns the time since when the oldest message has been waiting. It is zero if no message waits.
func (w *Waiting) Since() time.Time {
	if len(w.list) == 0 {
		return time.Time{}
	}
	return w.list[0].Since
}

// Last returns the newest message. It returns the zero Waiter if no message waits.
func (w *Waiting) Last() Waiter {
	if len(w.list) == 0 {
		return Waiter{}
	}
	return w.list[len(w.list)-1]
}

// Batch holds messages that Take has removed.
type Batch struct {
	List    []Waiter
	cancels int
}

// Take removes and returns all messages. The caller sends them, or puts them back with PutBack.
func (w *Waiting) Take() Batch {
	b := Batch{w.list, w.cancels}
	w.list = nil
	return b
}

// PutBack puts b.List[k:] back, in front of the messages that were added since Take. If Cancel was called
// since Take, PutBack does nothing and returns false. The caller must then complete these messages with an
// error, as the caller of Cancel did with the others.
func (w *Waiting) PutBack(b Batch, k int) bool {
	if b.cancels != w.cancels {
		return false
	}
	w.list = append(b.List[k:len(b.List):len(b.List)], w.list...)
	return true
}

// Cancel removes and returns all messages. The caller completes them with an error. Messages that Take has
// removed before cannot be put back after this.
func (w *Waiting) Cancel() []*lnd.Tx {
	w.cancels++
	return messages(w.Take().List)
}

// Expire removes and returns the messages that began to wait at the time limit or before it.
func (w *Waiting) Expire(limit time.Time) []*lnd.Tx {
	k := 0
	for k < len(w.list) && !w.list[k].Since.After(limit) {
		k++
	}
	late := messages(w.list[:k])
	w.list = w.list[k:]
	return late
}

// Recall removes and returns the messages for which match returns true.
func (w *Waiting) Recall(match func(*lnd.Tx) bool) (back []*lnd.Tx) {
	kept := w.list[:0]
	for _, x := range w.list {
		if match(x.M) {
			back = append(back, x.M)
		} else {
			kept = append(kept, x)
		}
	}
	clear(w.list[len(kept):])
	w.list = kept
	return back
}

// Renew makes the waiting time of all messages begin again at now.
func (w *Waiting) Renew(now time.Time) {
	for k := range w.list {
		w.list[k].Since = now
	}
}

// messages returns the messages in list, and clears list.
func messages(list []Waiter) []*lnd.Tx {
	if len(list) == 0 {
		return nil
	}
	ms := make([]*lnd.Tx, len(list))
	for k, x := range list {
		ms[k] = x.M
	}
	clear(list)
	return ms
}
