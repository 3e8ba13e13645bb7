package clients

import "github.com/lnetd/lnetd/transport/remote/protocol"

// account is lnetd's own bookkeeping of a completion ring (transport 9.5): the entries that the client
// has not read yet, and the entries reserved for completions of operations under way. Some entries of the
// ring, the credits, are for operations. The others are for events of the TM itself.
type account struct {
	entries, credits int
	reserved         int
	// posted counts the entries written. taken counts those that the client is known to have read.
	posted, taken uint64
	// told holds the positions, counted as in posted, of the entries with TM events that the client has
	// not read yet.
	told []uint64
}

func newAccount(entries int) account {
	credits := int(protocol.Credits(uint32(entries)))
	return account{entries: entries, credits: credits, told: make([]uint64, 0, entries-credits)}
}

// waiting returns how many entries the client has not read yet, as of the last update.
func (a *account) waiting() int { return int(a.posted - a.taken) }

// update records how many entries of the ring are free.
func (a *account) update(room int) {
	a.taken = a.posted - uint64(a.entries-room)
	n := 0
	for n < len(a.told) && a.told[n] < a.taken {
		n++
	}
	a.told = append(a.told[:0], a.told[n:]...)
}

// free returns how many more completions of operations can be reserved.
func (a *account) free() int { return a.credits - a.reserved - (a.waiting() - len(a.told)) }

// spare reports whether an entry is free and not reserved.
func (a *account) spare() bool { return a.reserved+a.waiting() < a.entries }

// mayTell reports whether an event of the TM can be written to the ring.
func (a *account) mayTell() bool { return len(a.told) < a.entries-a.credits && a.spare() }

// tell counts an entry that was written for an event of the TM.
func (a *account) tell() {
	a.told = append(a.told, a.posted)
	a.posted++
}
