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

// State is what a TM can be in (transport 3.5).
type State uint8

// The states that there are.
const (
	StateUndefined   State = iota // closed
	StateInitialized              // made, and not started
	StateStarting
	StateStarted
	StateStopping
	StateStopped
	StateFailed
)

var stateNames = [...]string{"undefined", "initialized", "starting", "started", "stopping", "stopped", "failed"}

// String is the state in small letters.
func (s State) String() string {
	if int(s) >= len(stateNames) {
		return "state " + strconv.Itoa(int(s))
	}
	return stateNames[s]
}

// AnyColour stands for no colour in particular (transport 3.13).
const AnyColour = ^uint32(0)

// TransferMachine is an address on the LNet with six queues of buffers (transport 3.5).
// Domain.NewTM makes one, which may then be confined, coloured and given a pool;
// Start, Stop and Close follow. Or Domain.Open and Shutdown do it all. All methods are safe
// for concurrent use; a call in the wrong state is EINVAL and does nothing.
type TransferMachine struct {
	domain   *Domain
	callback func(e *TMEvent)
	channel  Channel
	filler   filler

	// synchronous and processors do not change from StateStarting on, inner from when that
	// is over, or asked is set.
	synchronous bool
	processors  []int
	inner       CoreTM

	asked     atomic.Bool // Pending asks the Core: synchronous, and started or stopping
	abandoned atomic.Bool // the Core is gone, and has left buffers that abandon ends
	left      atomic.Bool // a callback has not returned to DeliverAll, which has more to do

	// Those who deliver have these for themselves: the worker, or who has delivering.
	reaped  []Completion
	next    int // reaped[next:last] are to be delivered
	last    int
	event   BufferEvent
	kept    *EndPoint // whose reference goes with the event
	calling bool      // the program has been called, and has not returned
	later   *batch    // adds of callbacks that go to the Core together
	handing *batch    // those that addNow is at

	// The worker's own.
	told TMEvent

	mu         orderedMutex[tmRank] // guards the rest; unlock releases it
	state      State
	failure    error // why StateFailed
	telling    bool  // the event of the state is not told yet
	closing    bool
	colour     uint32
	self       *EndPoint
	endPoints  endPoints
	queues     [QueueTypes]bufferList
	queued     int // buffers on all of them
	stats      [QueueTypes]Stats
	matchBits  MatchBits // of the last passive buffer
	deadlines  deadlines
	credits    int       // completions that ops may have yet
	room       int       // completions that the Core has room for
	batches    *batch    // that nobody uses
	calls      int       // under way in the Core
	callbacks  int       // under way in the program
	delivering bool      // somebody delivers
	turn       sync.Cond // of delivering
	answered   sync.Cond // a batch is back
	notify     *Channel
	news       []TMEvent // that the worker has to tell
	down       error     // the Core is gone

	// How the worker is started, rests and ends.
	cancelStart context.CancelFunc
	done        chan struct{}
	wake        chan struct{} // of restAside
	rest        rest
	restsUntil  time.Time // unless it is zero
	rousing     bool      // unlock shall wake the worker, if it rests
}

// NewTM makes a TM, StateInitialized. Callback hears of its state and troubles, one event
// at a time, in its worker; see Callbacks for what it may do. It may be nil: State, Await and
// Channel tell of the state, too. EINVAL: the domain is closed.
func (d *Domain) NewTM(callback func(e *TMEvent)) (*TransferMachine, error) {
	if callback == nil {
		callback = func(*TMEvent) {}
	}
	tm := &TransferMachine{
		domain: d, callback: callback, state: StateInitialized,
		colour: AnyColour, wake: make(chan struct{}, 1),
	}
	tm.turn.L, tm.answered.L = &tm.mu, &tm.mu
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.open(); err != nil {
		return nil, err
	}
	d.tms[tm] = struct{}{}
	return tm, nil
}

// Domain is the TM's.
func (tm *TransferMachine) Domain() *Domain { return tm.domain }

// State is its state now.
func (tm *TransferMachine) State() State {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	return tm.state
}

// Self is the end point of the TM itself, with the number that it has got; nil before
// StateStarted. The reference is the TM's.
func (tm *TransferMachine) Self() *EndPoint {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	return tm.self
}

// Channel is signalled when the state has changed, and whenever no callback runs any more.
func (tm *TransferMachine) Channel() *Channel { return &tm.channel }

// initialized tells whether what is for StateInitialized alone may be done; mu is held.
func (tm *TransferMachine) initialized(what string) error {
	if tm.state != StateInitialized || tm.closing {
		return fmt.Errorf("transport: %s: the TM is %v: %w", what, tm.state, syscall.EINVAL)
	}
	return nil
}

// SetColour gives the TM a colour, by which it gets buffers from its pool: those that it
// returned last. Colour is what it was given; AnyColour at first. EINVAL: it is stopping,
// or over.
func (tm *TransferMachine) SetColour(c uint32) error {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	if tm.state < StateInitialized || tm.state > StateStarted {
		return fmt.Errorf("transport: set colour: the TM is %v: %w", tm.state, syscall.EINVAL)
	}
	tm.colour = c
	return nil
}

// Colour is what SetColour has set.
func (tm *TransferMachine) Colour() uint32 {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	return tm.colour
}

// unlock releases mu, and wakes the worker, if it rests, when there is work for it.
func (tm *TransferMachine) unlock() {
	rousing := tm.rousing || tm.state == StateStopping || tm.down != nil
	tm.rousing = false
	if !rousing || tm.rest == restNone {
		tm.mu.Unlock()
		return
	}
	where := tm.rest
	tm.rest = restNone
	tm.mu.Unlock()
	if where == restCore {
		tm.inner.Wake()
		return
	}
	select {
	case tm.wake <- struct{}{}:
	default:
	}
}
