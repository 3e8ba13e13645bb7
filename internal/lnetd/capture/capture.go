package capture

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// bufferSize is the size of each of the two buffers of a capture: one is filled while the other one is read.
const bufferSize = 1 << 20

// interfacesMax is the maximum number of interfaces that a capture distinguishes. Messages of further NIs count to the
// first one, as do those without an NI.
const interfacesMax = 1024

// Source passes messages to a function until stop is called, as node.Admin.Capture does.
type Source interface {
	Capture(see func(*node.Captured)) (stop func(), err error)
}

// Capture is a running capture. Next must not be called concurrently.
type Capture struct {
	filter Filter
	ready  chan struct{} // has a token if there is something to read or the capture has ended
	lent   []byte        // what Next has returned; not used by see
	closed bool          // Next has returned the statistics

	mu       sync.Mutex          // guards the fields below
	filled   []byte              // encoded blocks; the capacity is constant
	nis      map[lnet.NID]uint32 // numbers of interfaces
	seen     uint64              // messages that the filter has selected
	kept     uint64              // of these, those that were recorded
	reported uint64              // of the others, those that a packet has reported
	ended    bool                // no more messages are recorded
}

// Start starts a capture, which ends when ctx is done or a limit of the filter is reached. The application is the name
// of the program for the file.
func Start(ctx context.Context, s Source, f Filter, application string) (*Capture, error) {
	c := &Capture{
		filter: f, ready: make(chan struct{}, 1), nis: map[lnet.NID]uint32{{}: 0},
		lent: make([]byte, 0, bufferSize), filled: make([]byte, 0, bufferSize),
	}
	c.filled = appendInterface(appendSection(c.filled, application), application)
	stop, err := s.Capture(c.see)
	if err != nil {
		return nil, err
	}
	end := func() { stop(); c.end() }
	if f.Duration > 0 {
		t := time.AfterFunc(f.Duration, end)
		context.AfterFunc(ctx, func() { t.Stop() })
	}
	context.AfterFunc(ctx, end)
	return c, nil
}

// end ends the recording of messages.
func (c *Capture) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	c.wake()
}

// wake wakes Next.
func (c *Capture) wake() {
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

// see records a message if the filter selects it and there is room for it.
func (c *Capture) see(m *node.Captured) {
	if !c.filter.matches(m) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	c.seen++
	if cap(c.filled)-len(c.filled) < packetMax+commentMax+c.filter.Payload {
		return
	}
	p := packet{Captured: m, at: time.Now(), payload: c.filter.Payload, lost: c.seen - 1 - c.kept - c.reported, ni: c.numberOf(m.NI)}
	b, ok := appendPacket(c.filled, &p)
	if !ok {
		return
	}
	c.filled = b
	c.kept++
	c.reported += p.lost
	c.ended = c.kept == c.filter.Count
	c.wake()
}

// numberOf returns the number of the interface for an NI, and describes it first if it is new.
func (c *Capture) numberOf(ni lnet.NID) uint32 {
	n, known := c.nis[ni]
	if known || len(c.nis) >= interfacesMax {
		return n
	}
	n = uint32(len(c.nis))
	c.nis[ni] = n
	c.filled = appendInterface(c.filled, ni.String())
	return n
}

// Next waits for data and returns them; they are valid until the next call. They consist of complete blocks. If ctx is
// done, the capture ends. At the end of the capture it returns statistics, and then io.EOF, or the cause of ctx if that is
// done.
func (c *Capture) Next(ctx context.Context) ([]byte, error) {
	for {
		if ctx.Err() != nil {
			c.end()
		}
		data, err := c.take()
		switch {
		case len(data) > 0:
			return data, nil
		case err != nil && ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil:
			return nil, err
		}
		select {
		case <-c.ready:
		case <-ctx.Done():
		}
	}
}

// take returns the blocks that were recorded since the last call, if there are any.
func (c *Capture) take() ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case len(c.filled) > 0:
		c.lent, c.filled = c.filled, c.lent[:0]
		return c.lent, nil
	case c.closed:
		return nil, io.EOF
	case c.ended:
		c.closed = true
		return appendStatistics(nil, time.Now(), c.seen, c.seen-c.kept), nil
	}
	return nil, nil
}
