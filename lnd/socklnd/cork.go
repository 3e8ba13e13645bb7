package socklnd

import (
	"sync/atomic"
	"time"
)

const (
	// maxCorked is how many messages a reader holds back at most. If there are more, they are written before the
	// end of its batch of arrivals, so that the peer can process them while this node processes the rest.
	// Otherwise each side would wait for the other's whole batch.
	maxCorked = maxBatch / 2
	// minCorked is how many messages a reader may hold back in any case. Writing fewer costs more than the peer
	// gains by getting them earlier.
	minCorked = 4
	// maxCorkedBytes is how many bytes of messages a reader holds back. Copying that many costs several times
	// as much as the system call, so there is no reason to wait for more.
	maxCorkedBytes = 16 << 10
	// longBatch is how long a reader must have been busy with a batch before it is worth while to write in the
	// middle of one: some times as long as a write takes.
	longBatch = 30 * time.Microsecond
)

// corks holds back messages to a peer while readers process batches of arrivals, so that the answers to a batch
// are written together. Senders set dirty and then check readers again. Readers decrement readers and then check
// dirty. So one of the two always notices a message that is held back.
type corks struct {
	readers atomic.Int32 // readers that are processing a batch of arrivals
	limit   atomic.Int32 // how many messages they hold back
	// dirty is the connection on which messages are held back, or severalDirty. A reader writes them at the end
	// of its batch.
	dirty atomic.Pointer[conn]
}

// severalDirty is the value of corks.dirty if messages are held back on more than one connection.
var severalDirty = new(conn)

// hold reports whether a reader will write the queue of c, so that the caller need not write it. c.mu is held.
func (k *corks) hold(c *conn) bool {
	if k.readers.Load() == 0 || c.queued.len() >= int(k.limit.Load()) || c.queuedBytes.Load() >= maxCorkedBytes {
		return false
	}
	k.noteDirty(c)
	return k.readers.Load() > 0
}

// noteDirty records that messages are held back on c.
func (k *corks) noteDirty(c *conn) {
	for {
		d, next := k.dirty.Load(), severalDirty
		if d == c || d == severalDirty {
			return
		}
		if d == nil {
			next = c
		}
		if k.dirty.CompareAndSwap(d, next) {
			return
		}
	}
}

// cork makes messages to the peer wait until uncork. The connection's reader calls it before it processes what
// has arrived.
//
// If the reader had to wait for that, the two nodes may take turns: each waits until the other has processed
// everything that is in flight, so that they never work at the same time. The answers to the first half of a long
// batch are then written earlier, and the peer begins with them while this node processes the second half. The
// reader does not know how many messages have arrived and how long they will take, so it expects as many, and as
// long a time, as last time.
func (c *conn) cork() {
	limit := int32(maxCorked)
	if c.waited && c.took >= longBatch {
		limit = min(max(c.arrivals/2, minCorked), maxCorked)
	}
	c.arrivals = 0
	c.peer.corks.limit.Store(limit)
	c.peer.corks.readers.Add(1)
}

// uncork undoes cork, and writes the messages that are held back.
func (c *conn) uncork() {
	k := &c.peer.corks
	k.readers.Add(-1)
	if k.dirty.Load() != nil {
		c.peer.flush(k.dirty.Swap(nil))
	}
}

// flush writes the messages that are held back on the connection dirty: none if it is nil, and those of all
// connections if it is severalDirty. It does not look at connections without such messages: with many peers,
// their memory is in no cache.
func (p *peer) flush(dirty *conn) {
	switch dirty {
	case nil:
		return
	case severalDirty:
		s := p.set.Load()
		for _, list := range [4][]*conn{s.control, s.bulkOut, s.bulkIn, s.untyped} {
			for _, c := range list {
				c.flushQueued()
			}
		}
	default:
		dirty.flushQueued()
	}
}
