package clients

import (
	"cmp"
	"fmt"
	"sync"
	"syscall"
)

// Quotas limit the resources that clients may have at a time (transport 9.8).
type Quotas struct {
	// Connections is the number of connections. It applies only to Rule.User.
	Connections int
	// TMs, Buffers and Areas are numbers of TMs, buffers and areas. Buffers also limits the segments of all
	// buffers together, to segmentsPerBuffer times Buffers.
	TMs, Buffers, Areas int
	// RingEntries is the total number of entries of the completion rings of all TMs.
	RingEntries int
	// Bytes is the total size of all areas.
	Bytes int64
	// Requests is the number of control requests that are answered per second. Further requests are
	// delayed. It applies only to Rule.Connection.
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

// or returns q in which each zero field is replaced by that of o.
func (q Quotas) or(o Quotas) Quotas {
	return Quotas{
		Connections: cmp.Or(q.Connections, o.Connections), TMs: cmp.Or(q.TMs, o.TMs), Buffers: cmp.Or(q.Buffers, o.Buffers),
		Areas: cmp.Or(q.Areas, o.Areas), RingEntries: cmp.Or(q.RingEntries, o.RingEntries), Bytes: cmp.Or(q.Bytes, o.Bytes),
		Requests: cmp.Or(q.Requests, o.Requests),
	}
}

// Kinds of resources that quotas limit. They are indices of amounts.
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

// segmentsPerBuffer is the number of segments per permitted buffer that all buffers together may have. It
// bounds the memory that lnetd needs for buffers that consist of many ranges.
const segmentsPerBuffer = 16

// amounts holds a number for each kind of resource.
type amounts [kinds]int64

func (q *Quotas) amounts() amounts {
	return amounts{
		ofConnections: int64(q.Connections), ofTMs: int64(q.TMs), ofBuffers: int64(q.Buffers), ofAreas: int64(q.Areas),
		ofEntries: int64(q.RingEntries), ofBytes: q.Bytes, ofSegments: segmentsPerBuffer * int64(q.Buffers),
	}
}

// owner is to whom limits apply: the user with this UID, or a connection.
type owner int64

const aConnection owner = -1

func (o owner) String() string {
	if o == aConnection {
		return "a connection"
	}
	return fmt.Sprintf("user %d", int64(o))
}

// add adds more to a if the sum is within limits. Otherwise it changes nothing and returns EDQUOT. The error
// names the resource and whose it is.
func (a *amounts) add(more, limits *amounts, whose owner) error {
	for k, n := range more {
		if n > 0 && n > limits[k]-a[k] {
			return fmt.Errorf("%d more %s exceed the limit of %d for %v, with %d in use: %w", n, kindNames[k], limits[k], whose, a[k], syscall.EDQUOT)
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

// users holds for each user, by UID, the resources that all connections of the user have together. Its lock
// also guards the amounts of each connection. It is safe for concurrent use.
type users struct {
	mu  sync.Mutex // guards all
	all map[uint32]*amounts
}

// add adds more to own, the resources of a connection, and to those of its user, if both sums are within the
// limits of the rule. Otherwise it changes nothing and returns EDQUOT.
func (u *users) add(uid uint32, own, more *amounts, r *Rule) error {
	ownLimits, limits := r.Connection.amounts(), r.User.amounts()
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := own.add(more, &ownLimits, aConnection); err != nil {
		return err
	}
	have := u.all[uid]
	if have == nil {
		have = new(amounts)
	}
	if err := have.add(more, &limits, owner(uid)); err != nil {
		own.subtract(more)
		return err
	}
	if u.all == nil {
		u.all = make(map[uint32]*amounts)
	}
	u.all[uid] = have
	return nil
}

// subtract subtracts less from own, the resources of a connection, and from those of its user. They must have
// been added before.
func (u *users) subtract(uid uint32, own, less *amounts) {
	u.mu.Lock()
	defer u.mu.Unlock()
	own.subtract(less)
	have := u.all[uid]
	have.subtract(less)
	if *have == (amounts{}) {
		delete(u.all, uid)
	}
}

// read returns own, the resources of a connection.
func (u *users) read(own *amounts) amounts {
	u.mu.Lock()
	defer u.mu.Unlock()
	return *own
}
