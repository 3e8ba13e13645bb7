package clients

import "github.com/lnetd/lnetd/transport/remote/protocol"

// account counts the entries of a completion ring that are in use (transport 9.5): those that the client
// has not read yet, and those reserved for completions of operations under way. Some entries of the ring,
// the credits, are for operations. The others are for events of the TM itself. lnetd keeps these counts
// itself, because it cannot rely on what the client writes to the ring.
type account struct {
	entries, credits int // number of all entries, and of those for operations
	reserved         int // number of entries reserved for operations under way
	// posted counts the entries that lnetd has written. consumed counts those that the client has read,
	// as of the last update.
	posted, consumed uint64
	// tmEvents holds the positions, counted as in posted, of the entries with TM events that the client has
	// not read yet.
	tmEvents []uint64
}

func newAccount(entries int) account {
	credits := int(protocol.Credits(uint32(entries)))
	return account{entries: entries, credits: credits, tmEvents: make([]uint64, 0, entries-credits)}
}

// waiting returns the number of entries that the client has not read yet, as of the last update.
func (a *account) waiting() int { return int(a.posted - a.consumed) }

// update records that room entries of the ring contain no unread completion, and so which entries the
// client has read.
func (a *account) update(room int) {
	a.consumed = a.posted - uint64(a.entries-room)
	n := 0
	for n < len(a.tmEvents) && a.tmEvents[n] < a.consumed {
		n++
	}
	a.tmEvents = append(a.tmEvents[:0], a.tmEvents[n:]...)
}

// free returns the number of entries that can still be reserved for completions of operations.
func (a *account) free() int { return a.credits - a.reserved - (a.waiting() - len(a.tmEvents)) }

// hasFreeEntry reports whether the ring has an entry that is neither unread nor reserved.
func (a *account) hasFreeEntry() bool { return a.reserved+a.waiting() < a.entries }

// canWriteTMEvent reports whether an event of the TM can be written to the ring.
func (a *account) canWriteTMEvent() bool {
	return len(a.tmEvents) < a.entries-a.credits && a.hasFreeEntry()
}

// addTMEvent counts an entry that was written for an event of the TM.
func (a *account) addTMEvent() {
	a.tmEvents = append(a.tmEvents, a.posted)
	a.posted++
}
