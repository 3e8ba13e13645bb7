package transport

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// State is the state of a TM (transport 3.5).
type State uint8

// The states of a TM.
const (
	StateUndefined   State = iota // closed
	StateInitialized              // created, but not started
	StateStarting
	StateStarted
	StateStopping
	StateStopped
	StateFailed
)

var stateNames = [...]string{"undefined", "initialized", "starting", "started", "stopping", "stopped", "failed"}

// String returns the name of the state in lower case.
func (s State) String() string {
	if int(s) >= len(stateNames) {
		return "state " + strconv.Itoa(int(s))
	}
	return stateNames[s]
}

// AnyColour means no particular colour (transport 3.13).
const AnyColour = ^uint32(0)

// TransferMachine is an address on the LNet with six queues of buffers (transport 3.5). Domain.NewTM
// creates one. Before Start it can be confined to processors, given a colour and attached to a pool. Start,
// Stop and Close follow. Domain.Open and Shutdown combine these steps.
//
// All methods are safe for concurrent use. A call in the wrong state returns EINVAL and has no effect.
type TransferMachine struct {
	domain       *Domain
	callback     func(e *TMEvent)
	channel      Channel
	provisioning provisionState

	// synchronous and processors do not change once the state is StateStarting. inner does not change once
	// the state is past StateStarting, or asked is set.
	synchronous bool
	processors  []int
	inner       CoreTM

	pollsCore  atomic.Bool // Pending polls the Core: delivery is synchronous, and the TM is started or stopping
	coreLost   atomic.Bool // the Core is gone; endLostOps must end the buffers that it left
	moreEvents atomic.Bool // a callback did not return to DeliverAll, and more events are due

	// The delivering goroutine owns these fields: the worker, or the caller that set delivering.
	reaped          []Completion
	next            int // reaped[next:last] are not delivered yet
	last            int
	event           BufferEvent
	eventEndPoint   *EndPoint // end point whose reference is dropped after the callback
	inCallback      bool      // a callback of the program is running
	deferred        *batch    // buffers that callbacks added, to be submitted together
	submittingBatch *batch    // the batch that submitDeferred is submitting

	// Owned by the worker.
	tmEvent TMEvent

	mu              orderedMutex[tmRank] // guards the fields below; released by unlock
	state           State
	failure         error // the cause of StateFailed
	inStateCallback bool  // the callback for the current state has not returned yet
	closing         bool
	colour          uint32
	self            *EndPoint
	endPoints       endPoints
	queues          [QueueTypes]bufferList
	queued          int // number of buffers on all queues
	stats           [QueueTypes]Stats
	matchBits       MatchBits // of the newest passive buffer
	deadlines       deadlines
	credits         int       // completions that the submitted ops may still produce
	room            int       // completions that the Core has room for
	batches         *batch    // free list
	batchesInUse    int       // batches in use
	callbacks       int       // callbacks of the program that are running
	delivering      bool      // a goroutine is delivering events
	deliveryEnded   sync.Cond // signalled when delivering becomes false
	batchReturned   sync.Cond // signalled when a batch has been returned
	notify          *Channel
	tmEvents        []TMEvent // events that the worker has yet to report
	down            error     // not nil if the Core is gone

	// Starting, waking and ending the worker.
	cancelStart context.CancelFunc
	done        chan struct{}
	wake        chan struct{} // wakes waitWake
	waiting     waitState
	waitsUntil  time.Time // zero if there is no limit
	wakeNeeded  bool      // unlock must wake the worker if it rests
}

// NewTM creates a TM in StateInitialized. The worker calls callback for state changes and errors of the TM,
// one event at a time; the rules of Callbacks apply. If callback is nil, these events are discarded; State,
// Await and Channel still report the state. NewTM returns EINVAL if the domain is closed.
func (d *Domain) NewTM(callback func(e *TMEvent)) (*TransferMachine, error) {
	if callback == nil {
		callback = func(*TMEvent) {}
	}
	tm := &TransferMachine{
		domain: d, callback: callback, state: StateInitialized,
		colour: AnyColour, wake: make(chan struct{}, 1),
	}
	tm.deliveryEnded.L, tm.batchReturned.L = &tm.mu, &tm.mu
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.open(); err != nil {
		return nil, err
	}
	d.tms[tm] = struct{}{}
	return tm, nil
}

// Domain returns the domain that the TM belongs to.
func (tm *TransferMachine) Domain() *Domain { return tm.domain }

// State returns the current state.
func (tm *TransferMachine) State() State {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	return tm.state
}

// Self returns the end point of the TM itself, with the number that it was assigned. It returns nil before
// StateStarted. The reference belongs to the TM; the caller must not drop it.
func (tm *TransferMachine) Self() *EndPoint {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	return tm.self
}

// Channel returns a channel that is signalled when the state has changed, and whenever the last running
// callback has returned.
func (tm *TransferMachine) Channel() *Channel { return &tm.channel }

// initialized returns an EINVAL error that names the operation what, unless the TM is in StateInitialized
// and not closing. mu is held.
func (tm *TransferMachine) initialized(what string) error {
	if tm.state != StateInitialized || tm.closing {
		return fmt.Errorf("transport: %s: the TM is %v: %w", what, tm.state, syscall.EINVAL)
	}
	return nil
}

// SetColour sets the colour of the TM. The TM prefers buffers of its pool that were returned with this
// colour, the most recently returned one first. The initial colour is AnyColour. SetColour returns EINVAL
// if the TM is stopping or has ended.
func (tm *TransferMachine) SetColour(c uint32) error {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	if tm.state < StateInitialized || tm.state > StateStarted {
		return fmt.Errorf("transport: set colour: the TM is %v: %w", tm.state, syscall.EINVAL)
	}
	tm.colour = c
	return nil
}

// Colour returns the colour that SetColour has set, or AnyColour.
func (tm *TransferMachine) Colour() uint32 {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	return tm.colour
}

// unlock releases mu. If the worker rests and there is work for it, unlock wakes it.
func (tm *TransferMachine) unlock() {
	rousing := tm.wakeNeeded || tm.state == StateStopping || tm.down != nil
	tm.wakeNeeded = false
	if !rousing || tm.waiting == waitNone {
		tm.mu.Unlock()
		return
	}
	where := tm.waiting
	tm.waiting = waitNone
	tm.mu.Unlock()
	if where == waitCore {
		tm.inner.Wake()
		return
	}
	select {
	case tm.wake <- struct{}{}:
	default:
	}
}
