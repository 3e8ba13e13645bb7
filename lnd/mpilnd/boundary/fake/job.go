package fake

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Job is a job with a fixed number of ranks. Its methods may be called from any goroutine.
type Job struct {
	o     Options
	ranks []*MPI
	world *context
	// parent is the port to which the job connects that has spawned this one, or empty. It is set before a rank runs.
	parent string

	mu      *sync.Mutex // also of the jobs that New and Beside have created together
	joined  *universe
	gates   []*gate // collective calls that not all ranks have left, in order, from the number passed on
	passed  int
	aborted int   // the status of Abort, or 0
	ended   error // why calls of all ranks return errors
}

// New creates a job of n ranks.
func New(n int, o Options) *Job { return newJob(n, o, new(universe)) }

// Beside creates another job of n ranks, which can connect to j and to other jobs that were created beside it.
func (j *Job) Beside(n int, o Options) *Job { return newJob(n, o, j.joined) }

func newJob(n int, o Options, u *universe) *Job {
	if o.MaxTag == 0 {
		o.MaxTag = smallestMaxTag
	}
	j := &Job{o: o, world: new(context), mu: &u.mu, joined: u}
	for rank := range n {
		j.ranks = append(j.ranks, &MPI{
			job: j, rank: rank, bell: make(chan struct{}, 1), requests: make(map[uint64]*request),
			random: rand.New(rand.NewPCG(o.Seed, uint64(rank))),
		})
	}
	for _, m := range j.ranks {
		m.join(j.world, j)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	u.jobs = append(u.jobs, j)
	return j
}

// Rank returns the access of a rank to the job. One goroutine uses it at a time.
func (j *Job) Rank(rank int) *MPI { return j.ranks[rank] }

// Size returns the number of ranks.
func (j *Job) Size() int { return len(j.ranks) }

// Requests returns the number of requests of a rank whose completion Poll has not reported.
func (j *Job) Requests(rank int) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.ranks[rank].requests)
}

// Aborted returns the status with which a rank has called Abort, or 0.
func (j *Job) Aborted() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.aborted
}

// FailNext makes the next n sends and receives that the rank starts fail.
func (j *Job) FailNext(rank, n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ranks[rank].failing += n
}

// Stall makes a rank stop or resume progress. While it is stalled, no message arrives at it, and its calls of Poll
// report nothing.
func (j *Job) Stall(rank int, stalled bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ranks[rank].stalled = stalled
	j.ranks[rank].ring()
}

// Kill kills a rank. Its calls return ErrKilled. Its messages that no receive has been matched with are lost, except
// those that already wait in the memory of their receiver.
func (j *Job) Kill(rank int, f Fate) {
	j.mu.Lock()
	defer j.mu.Unlock()
	dead := j.ranks[rank]
	dead.killed, dead.fate = true, f
	for m := range j.joined.ranks() {
		for _, box := range m.inbox {
			if box.from == dead {
				box.list = nil
			}
		}
		m.unexpected = slices.DeleteFunc(m.unexpected, func(e *message) bool { return e.from == dead && e.send != nil })
		if f == Fail {
			m.failRequests(dead)
		}
		m.ring()
	}
}

// Close ends the job: blocked calls, and all later ones, return ErrClosed.
func (j *Job) Close() { j.end(ErrClosed) }

func (j *Job) end(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.ended == nil {
		j.ended = err
	}
	for m := range j.joined.ranks() {
		m.ring()
	}
}

// delay returns a random time for an event in a call of m.
func (m *MPI) delay() time.Duration {
	if m.job.o.Delay == 0 {
		return 0
	}
	return time.Duration(m.random.Int64N(int64(m.job.o.Delay) + 1))
}

// fails decides whether a request that m starts fails.
func (m *MPI) fails() bool {
	if m.failing > 0 {
		m.failing--
		return true
	}
	return m.job.o.Fail > 0 && m.random.Float64() < m.job.o.Fail
}
