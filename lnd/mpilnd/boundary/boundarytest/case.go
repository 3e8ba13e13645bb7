package boundarytest

import (
	"bytes"
	"fmt"
	"time"

	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
)

// Ranks is the number of ranks that the job must have.
const Ranks = 4

// Case is one test.
type Case struct {
	Name string
	run  func(*rank)
}

// Cases returns the tests in the order in which every rank must run them.
func Cases() []Case {
	return []Case{
		{"World", world},
		{"Order", order},
		{"OrderOfLengths", orderOfLengths},
		{"MatchTag", matchTag},
		{"MatchSource", matchSource},
		{"Any", anySource},
		{"Unexpected", unexpected},
		{"Self", self},
		{"Empty", empty},
		{"Shorter", shorter},
		{"Truncated", truncated},
		{"Limits", limits},
		{"CancelBefore", cancelBefore},
		{"CancelAfter", cancelAfter},
		{"CancelUnknown", cancelUnknown},
		{"CancelMany", cancelMany},
		{"CancelRace", cancelRace},
		{"NoWait", noWait},
		{"Wake", wake},
		{"WakeBusy", wakeBusy},
		{"WaitForMessage", waitForMessage},
		{"PingPong", pingPong},
		{"Megabyte", megabyte},
		{"Outstanding", outstanding},
		{"TenThousand", tenThousand},
		{"Random", random},
		{"Barrier", barrier},
		{"Broadcast", broadcast},
		{"Gather", gather},
		{"CollectiveBesideMessages", collectiveBesideMessages},
	}
}

// Run runs the test as one rank, which must have no incomplete request, and returns the first failure. A request that
// is not complete after patience is a failure. After a failure the job can run no further test.
func (c Case) Run(m boundary.MPI, patience time.Duration) (err error) {
	r := &rank{m: m, until: time.Now().Add(patience), started: make(map[uint64]bool), done: make(map[uint64]boundary.Done)}
	defer func() {
		if p := recover(); p != nil {
			f, failed := p.(failure)
			if !failed {
				panic(p)
			}
			err = fmt.Errorf("rank %d: %w", r.me, f.error)
		}
	}()
	r.Comm, err = m.World()
	if err != nil {
		return err
	}
	r.me = r.Rank()
	c.run(r)
	r.finish()
	return nil
}

// rank is one rank during a test.
type rank struct {
	boundary.Comm
	m       boundary.MPI
	me      int
	until   time.Time // when the rank gives up waiting
	last    uint64    // the last ID of a request
	started map[uint64]bool
	done    map[uint64]boundary.Done // reported by Poll, and not returned by wait
	batch   [64]boundary.Done
}

// failure is what fail panics with.
type failure struct{ error }

func (r *rank) fail(format string, args ...any) {
	panic(failure{fmt.Errorf(format, args...)})
}

func (r *rank) must(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// start registers a new request.
func (r *rank) start() uint64 {
	r.last++
	r.started[r.last] = true
	return r.last
}

func (r *rank) send(to, tag int, b []byte) uint64 {
	id := r.start()
	r.must(r.Send(to, tag, b, id))
	return id
}

func (r *rank) receive(from, tag int, b []byte) uint64 {
	id := r.start()
	r.must(r.Receive(from, tag, b, id))
	return id
}

// poll calls Poll once, and records the completions.
func (r *rank) poll(wait time.Duration) int {
	n, err := r.m.Poll(r.batch[:], wait)
	r.must(err)
	for _, d := range r.batch[:n] {
		if !r.started[d.ID] {
			r.fail("completion of %d, which is no request or was complete before", d.ID)
		}
		delete(r.started, d.ID)
		r.done[d.ID] = d
	}
	return n
}

// complete waits for a request, and returns its completion.
func (r *rank) complete(id uint64) boundary.Done {
	for {
		if d, ok := r.done[id]; ok {
			delete(r.done, id)
			return d
		}
		left := time.Until(r.until)
		if left <= 0 {
			r.fail("request %d is not complete; %d are incomplete", id, len(r.started))
		}
		r.poll(left)
	}
}

// sent waits until sends have succeeded.
func (r *rank) sent(ids ...uint64) {
	for _, id := range ids {
		if d := r.complete(id); d.Err != nil || d.Cancelled {
			r.fail("send %d: %+v", id, d)
		}
	}
}

// received waits until the receive id has a message, and compares it.
func (r *rank) received(id uint64, from, tag int, b, want []byte) {
	d := r.complete(id)
	if d.Err != nil || d.Cancelled || d.From != from || d.Tag != tag || d.Length != len(want) {
		r.fail("receive %d: %+v, want %d bytes from rank %d with tag %d", id, d, len(want), from, tag)
	}
	if !bytes.Equal(b[:d.Length], want) {
		r.fail("receive %d: wrong bytes from rank %d with tag %d", id, from, tag)
	}
}

// finish checks that nothing is left, and waits for the other ranks.
func (r *rank) finish() {
	r.must(r.Barrier())
	if n := r.poll(0); n > 0 || len(r.started) > 0 || len(r.done) > 0 {
		r.fail("%d requests are incomplete, completions of %d were not expected", len(r.started), len(r.done))
	}
}

// others returns the ranks beside this one. Each rank begins with its successor.
func (r *rank) others() (ranks []int) {
	for k := 1; k < r.Size(); k++ {
		ranks = append(ranks, (r.me+k)%r.Size())
	}
	return ranks
}

// pattern returns n bytes that depend on all arguments. They are periodic, with a prime period.
func pattern(n int, seeds ...int) []byte {
	const period = 251
	x := uint32(2463534242)
	for _, s := range seeds {
		x = (x ^ uint32(s)) * 16777619
	}
	b := make([]byte, n)
	for k := range min(n, period) {
		x = x*1664525 + 1013904223
		b[k] = byte(x >> 24)
	}
	for k := period; k < n; k *= 2 {
		copy(b[k:], b[:k])
	}
	return b
}

func world(r *rank) {
	again, err := r.m.World()
	r.must(err)
	if again != r.Comm {
		r.fail("World returned another communicator")
	}
	if r.Size() != Ranks || r.me < 0 || r.me >= Ranks {
		r.fail("rank %d of %d, want %d ranks", r.me, r.Size(), Ranks)
	}
	if r.m.Library() == "" || r.m.MaxTag() < 32767 {
		r.fail("library %q, largest tag %d", r.m.Library(), r.m.MaxTag())
	}
}
