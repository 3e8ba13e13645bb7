package fake

import (
	"errors"
	"time"

	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
)

// Options are the properties of a job. The zero value has no delays, no faults, and a MaxTag of 32767.
type Options struct {
	// Seed determines delays, random orders and random faults.
	Seed uint64
	// Delay is the longest time that a message takes to arrive, and that a request needs to complete after that.
	// The times are random. The order of messages from one rank to another is kept, that of completions is not.
	Delay time.Duration
	// Shuffle makes Poll report complete requests in a random order.
	Shuffle bool
	// Unexpected is how many messages without a receive can wait for each rank in the memory of the library. Sends of
	// further messages, and of messages longer than Eager, are incomplete until the rank receives them.
	Unexpected int
	// Eager is the length in bytes of the longest message that can wait in the memory of the library.
	Eager int
	// Fail is the probability, from 0 to 1, that a request fails. The message of a send that fails may arrive.
	Fail float64
	// MaxTag is the largest tag. 0 means 32767, the smallest that MPI allows.
	MaxTag int
	// NoConnections makes the job one of a library that cannot connect jobs.
	NoConnections bool
	// Spawn starts the ranks of a job that MPI.Spawn has created for a program. It is called in rank 0, and must not
	// wait for them. If it is nil, the library cannot spawn jobs.
	Spawn func(p boundary.Program, job *Job)
}

const smallestMaxTag = 32767

// Fate is what happens to requests of other ranks that need a rank that was killed.
type Fate int

// Hang: they never complete, but receives can be cancelled. Collective calls block until Job.Close.
// Fail: they fail with ErrKilled, as do collective calls.
const (
	Hang Fate = iota
	Fail
)

// Errors of calls and requests.
var (
	// ErrFailed means that a request failed because the test wanted it (Options.Fail, Job.FailNext).
	ErrFailed = errors.New("fake: injected failure")
	// ErrKilled means that a rank was killed: the caller's, or the one that a request needs.
	ErrKilled = errors.New("fake: the rank was killed")
	// ErrAborted means that a rank has called Abort.
	ErrAborted = errors.New("fake: the job was aborted")
	// ErrClosed means that the rank or the job is closed.
	ErrClosed = errors.New("fake: closed")
)
