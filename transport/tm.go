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

// AnyColour is the colour of a TM or buffer that has no particular colour (transport 3.13).
const AnyColour = ^uint32(0)

// TransferMachine (TM) is an address on LNet with six queues of buffers (transport 3.5). Domain.NewTM creates
// a TM. Before Start, the program can confine it to processors, give it a colour and attach a pool. After
// Start, the program adds buffers. Stop and Close end the TM. Domain.Open combines creation and start, and
// Shutdown combines stop and close.
//
// All methods are safe for concurrent use. A call in the wrong state returns EINVAL and has no effect.
type TransferMachine struct {
	domain       *Domain
	callback     func(e *TMEvent)
	channel      Channel
	provisioning provisionState

	// synchronous and processors are constant from StateStarting on. inner is nil until the Core has started
	// the TM, and constant after that, so it may be read without mu from StateStarted on.
	synchronous bool
	processors  []int
	inner       CoreTM

	pollsCore  atomic.Bool // Pending may poll the Core: delivery is synchronous, and the TM is started or stopping
	coreLost   atomic.Bool // the Core is gone, and endLostOps must end the operations that were in progress
	moreEvents atomic.Bool // a callback ended DeliverAll by Goexit or panic before all events were delivered
	// programWaits is set while a goroutine is in Wait, and changes only with mu held. interrupted makes Wait return.
	programWaits, interrupted atomic.Bool

	// Only the delivering goroutine accesses these fields: the worker, or with synchronous delivery the
	// goroutine that set delivering.
	reaped          []Completion
	next            int // reaped[next:last] are yet to be delivered
	last            int
	event           BufferEvent
	eventEndPoint   *EndPoint // end point whose reference is dropped after the callback
	inCallback      bool      // a callback of the program is running
	deferred        *batch    // buffers that callbacks added with BufferEvent.Add, to be submitted together
	submittingBatch *batch    // the batch that submitDeferred is submitting

	// Only the worker accesses tmEvent.
	tmEvent TMEvent

	mu              orderedMutex[tmRank] // guards the fields below; unlock releases it and may wake the worker
	state           State
	failure         error // why the TM is in StateFailed; nil in other states
	inStateCallback bool  // the callback for the current state has not returned yet
	closing         bool
	colour          uint32
	self            *EndPoint
	endPoints       endPoints
	queues          [QueueTypes]bufferList
	queued          int // number of buffers on all queues
	stats           [QueueTypes]Stats
	matchBits       MatchBits // of the passive buffer that was added last
	deadlines       deadlines
	credits         int       // completions that the submitted ops may still produce
	room            int       // completions that the Core has room for
	batches         *batch    // free batches, linked by next
	batchesInUse    int       // batches that getBatch has returned and putBatch has not got back
	callbacks       int       // callbacks of the program that are running in any goroutine
	delivering      bool      // a goroutine is delivering events
	deliveryEnded   sync.Cond // signalled when delivering becomes false
	batchReturned   sync.Cond // signalled by putBatch
	notify          *Channel
	tmEvents        []TMEvent // events that the worker has yet to report
	down            error     // not nil if the Core is gone

	// The fields below are used to start, wake and end the worker.
	cancelStart context.CancelFunc
	done        chan struct{}
	wake        chan struct{} // gets an element when unlock wakes a worker in waitWake
	waiting     waitState
	// workerInCore is set while the worker is in CoreTM.Wait, or about to be. leftCore is signalled when it becomes
	// false, and when programWaits does.
	workerInCore bool
	leftCore     sync.Cond
	waitsUntil   time.Time // when the worker's wait ends; zero means no limit
	wakeNeeded   bool      // unlock must wake the worker if it waits
}

// NewTM creates a TM in StateInitialized. The TM's worker calls callback for state changes and errors of the
// TM, one event at a time; the rules of Callbacks apply. If callback is nil, these events are discarded;
// State, Await and Channel still report the state. NewTM returns EINVAL if the domain is closed.
func (d *Domain) NewTM(callback func(e *TMEvent)) (*TransferMachine, error) {
	if callback == nil {
		callback = func(*TMEvent) {}
	}
	tm := &TransferMachine{
		domain: d, callback: callback, state: StateInitialized,
		colour: AnyColour, wake: make(chan struct{}, 1),
	}
	tm.deliveryEnded.L, tm.batchReturned.L, tm.leftCore.L = &tm.mu, &tm.mu, &tm.mu
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

// Self returns the end point of the TM itself; its address contains the TM number that was assigned. It
// returns nil before StateStarted. The reference belongs to the TM; the caller must not drop it.
func (tm *TransferMachine) Self() *EndPoint {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	return tm.self
}

// Channel returns a channel that the TM signals when its state has changed, and whenever a callback returns
// while no other callback is running.
func (tm *TransferMachine) Channel() *Channel { return &tm.channel }

// initialized returns nil if the TM is in StateInitialized and not being closed. Otherwise it returns an
// EINVAL error that names the attempted operation, what. mu is held.
func (tm *TransferMachine) initialized(what string) error {
	if tm.state != StateInitialized || tm.closing {
		return fmt.Errorf("transport: %s: the TM is %v: %w", what, tm.state, syscall.EINVAL)
	}
	return nil
}

// SetColour sets the colour of the TM. When the TM fills its receive queue, it prefers buffers that were
// returned to the pool with this colour, the most recently returned one first. The initial colour is
// AnyColour. SetColour returns EINVAL if the TM is stopping or has ended.
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

// unlock releases mu. It wakes the worker if the worker waits and a caller has set wakeNeeded, the TM is
// stopping, or the Core is gone. In the last case it also ends Wait.
func (tm *TransferMachine) unlock() {
	down, where := tm.down != nil, waitNone
	if tm.wakeNeeded || tm.state == StateStopping || down {
		where, tm.waiting = tm.waiting, waitNone
	}
	tm.wakeNeeded = false
	tm.mu.Unlock()
	switch where {
	case waitNone:
	case waitCore:
		tm.inner.Wake()
	case waitWake:
		select {
		case tm.wake <- struct{}{}:
		default:
		}
	}
	if down {
		tm.wakeProgram()
	}
}
