package clients

import "github.com/lnetd/lnetd/transport/remote/protocol"

// account is lnetd's own reckoning of a completion ring (transport 9.5): how many of its
// entries wait for the client, and how many are reserved for completions of operations
// under way. Credits of the entries are for operations, the others for what tells of the
// TM.
type account struct {
	entries, credits int
	reserved         int
	// posted counts the entries that were written, taken those that the client is known to
	// have taken out.
	posted, taken uint64
	// told are the numbers, of posted, of entries that tell of the TM, until those were
	// taken.
	told []uint64
}

func newAccount(entries int) account {
	credits := int(protocol.Credits(uint32(entries)))
	return account{entries: entries, credits: credits, told: make([]uint64, 0, entries-credits)}
}

// waiting is how many entries the client has not taken out, as far as is known.
func (a *account) waiting() int { return int(a.posted - a.taken) }

// update notes how much room there is in the ring.
func (a *account) update(room int) {
	a.taken = a.posted - uint64(a.entries-room)
	n := 0
	for n < len(a.told) && a.told[n] < a.taken {
		n++
	}
	a.told = append(a.told[:0], a.told[n:]...)
}

// free is how many completions of operations can be reserved.
func (a *account) free() int { return a.credits - a.reserved - (a.waiting() - len(a.told)) }

// spare tells whether there is an entry that nothing is reserved for.
func (a *account) spare() bool { return a.reserved+a.waiting() < a.entries }

// mayTell tells whether something can be told of the TM.
func (a *account) mayTell() bool { return len(a.told) < a.entries-a.credits && a.spare() }

// tell notes an entry that was written and tells of the TM.
func (a *account) tell() {
	a.told = append(a.told, a.posted)
	a.posted++
}
