package clients

import (
	"cmp"
	"fmt"
	"sync"
	"syscall"
)

// Quotas are how much there may be at a time (transport 9.8).
type Quotas struct {
	// Connections counts for a user alone.
	Connections int
	// TMs, Buffers and Areas are numbers. All buffers together have segmentsPerBuffer
	// segments for each that there may be.
	TMs, Buffers, Areas int
	// RingEntries are those of the completion rings of all TMs.
	RingEntries int
	// Bytes is the size of all areas.
	Bytes int64
	// Requests is how many control records are answered in a second; those that come
	// faster wait. It counts for a connection alone.
	Requests int
}

// Defaults of Rule.Connection and Rule.User.
var (
	connectionQuotas = Quotas{
		Connections: 1, TMs: 64, Buffers: 16384, Areas: 64, RingEntries: 65536, Bytes: 1 << 30, Requests: 10_000,
	}
	userQuotas = Quotas{
		Connections: 64, TMs: 1024, Buffers: 256 << 10, Areas: 1024, RingEntries: 1 << 20, Bytes: 16 << 30, Requests: 1,
	}
)

// or is q with what is 0 as o has it.
func (q Quotas) or(o Quotas) Quotas {
	return Quotas{
		Connections: cmp.Or(q.Connections, o.Connections), TMs: cmp.Or(q.TMs, o.TMs), Buffers: cmp.Or(q.Buffers, o.Buffers),
		Areas: cmp.Or(q.Areas, o.Areas), RingEntries: cmp.Or(q.RingEntries, o.RingEntries), Bytes: cmp.Or(q.Bytes, o.Bytes),
		Requests: cmp.Or(q.Requests, o.Requests),
	}
}

// Kinds of what is counted.
const (
	ofConnections = iota
	ofTMs
	ofBuffers
	ofAreas
	ofEntries
	ofBytes
	ofSegments
	kinds
)

var kindNames = [kinds]string{"connections", "TMs", "buffers", "areas", "ring entries", "bytes of areas", "segments of buffers"}

// segmentsPerBuffer bounds what lnetd remembers of buffers that are scattered in areas:
// ranges one behind the other are one segment.
const segmentsPerBuffer = 16

// amounts are how much there is of each kind.
type amounts [kinds]int64

func (q *Quotas) amounts() amounts {
	return amounts{
		ofConnections: int64(q.Connections), ofTMs: int64(q.TMs), ofBuffers: int64(q.Buffers), ofAreas: int64(q.Areas),
		ofEntries: int64(q.RingEntries), ofBytes: q.Bytes, ofSegments: segmentsPerBuffer * int64(q.Buffers),
	}
}

// add adds more if the sum is within limits. Else it changes nothing, and says what whose
// has too much of: EDQUOT.
func (a *amounts) add(more, limits *amounts, whose string) error {
	for k, n := range more {
		if n > 0 && n > limits[k]-a[k] {
			return fmt.Errorf("%d more %s, of %d that %s may have, and %d in use: %w", n, kindNames[k], limits[k], whose, a[k], syscall.EDQUOT)
		}
	}
	for k, n := range more {
		a[k] += n
	}
	return nil
}

func (a *amounts) subtract(less *amounts) {
	for k, n := range less {
		a[k] -= n
	}
}

// users is what the connections of each user have, by UID.
type users struct {
	mu  sync.Mutex // guards all
	all map[uint32]*amounts
}

// add adds to what a user has, as amounts.add does.
func (u *users) add(uid uint32, more, limits *amounts) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	have := u.all[uid]
	if have == nil {
		have = new(amounts)
	}
	if err := have.add(more, limits, fmt.Sprintf("user %d", uid)); err != nil {
		return err
	}
	if u.all == nil {
		u.all = make(map[uint32]*amounts)
	}
	u.all[uid] = have
	return nil
}

// subtract takes from what a user has.
func (u *users) subtract(uid uint32, less *amounts) {
	u.mu.Lock()
	defer u.mu.Unlock()
	have := u.all[uid]
	have.subtract(less)
	if *have == (amounts{}) {
		delete(u.all, uid)
	}
}
