package peering

import (
	"context"
	"fmt"
	"sync"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnd/hostnet"
	"github.com/lnetd/lnetd/lnet"
)

// Interfaces is the table of a driver's open interfaces, by NID. The zero value is empty. It is safe
// for concurrent use.
type Interfaces[I any] struct {
	mu     sync.Mutex // guards the fields below
	closed bool
	open   map[lnet.NID]I
}

// Opening contains the parts of Interfaces.Open that depend on the driver.
type Opening[I any] struct {
	Driver string // the driver's name, for errors
	Type   lnet.NetType
	Host   hostnet.Host
	Log    *boundedlog.Log // used by interfaces whose configuration has no logger
	// New creates an interface from its resolved configuration. It starts nothing.
	New func(c *lnd.Config, at *Place) (I, error)
	// Listen lets peers connect to an interface that is in the table. Leave removes the interface from the
	// table and undoes Listen; it is also called if Listen has failed.
	Listen func(I) error
	Leave  func(I)
}

// Open creates an interface, adds it to the table, and lets peers connect to it. It returns the errors of
// FindPlace, Enter, o.New and o.Listen, with the names of the driver, the net and the device added.
func (t *Interfaces[I]) Open(ctx context.Context, c lnd.Config, o *Opening[I]) (I, error) {
	i, err := t.create(ctx, &c, o)
	if err != nil {
		return i, fmt.Errorf("%s: open %s on %q: %w", o.Driver, c.Net, c.Device, err)
	}
	return i, nil
}

func (t *Interfaces[I]) create(ctx context.Context, c *lnd.Config, o *Opening[I]) (i I, err error) {
	at, err := FindPlace(ctx, c, o.Type, o.Host, o.Log)
	if err != nil {
		return i, err
	}
	if i, err = o.New(c, at); err != nil {
		return i, err
	}
	if err := t.Enter(at.Self, i); err != nil {
		return i, err
	}
	if err := o.Listen(i); err != nil {
		o.Leave(i)
		return i, err
	}
	return i, nil
}

// Enter adds an interface with the given NID. It returns lnd.ErrExists if the table already has an interface
// with this NID, and lnd.ErrClosed after Close.
func (t *Interfaces[I]) Enter(nid lnet.NID, i I) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return lnd.ErrClosed
	}
	if _, exists := t.open[nid]; exists {
		return fmt.Errorf("nid %s: %w", nid, lnd.ErrExists)
	}
	if t.open == nil {
		t.open = make(map[lnet.NID]I)
	}
	t.open[nid] = i
	return nil
}

// Leave removes the interface with the given NID.
func (t *Interfaces[I]) Leave(nid lnet.NID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, nid)
}

// Find returns the interface with exactly this NID, or the zero I if the table does not contain it.
func (t *Interfaces[I]) Find(nid lnet.NID) I {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open[nid]
}

// Len returns the number of interfaces.
func (t *Interfaces[I]) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.open)
}

// Close makes later calls of Enter fail. It returns an error if interfaces are still open.
func (t *Interfaces[I]) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	if n := len(t.open); n > 0 {
		return fmt.Errorf("%d interfaces are still open", n)
	}
	return nil
}
