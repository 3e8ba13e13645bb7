package node

import (
	"math"
	"testing"
)

// Very large numbers of router buffers cost no more than small ones. If each buffer were
// counted one by one, this would take minutes.
func TestResizeOfManyBuffers(t *testing.T) {
	var p pool
	p.init(0)
	for _, limit := range []int{math.MaxInt32, 0, 7, math.MaxInt32, 1} {
		p.resize(limit)
		if c := p.credits.info(); c.Max != limit || c.Available != limit {
			t.Errorf("resized to %d: %+v", limit, c)
		}
	}
	// While some are in use and released later.
	b, more := &message{}, &message{}
	if !p.credits.acquire(b) || p.credits.acquire(more) {
		t.Fatal("there is one credit")
	}
	if ready := p.resize(math.MaxInt32); ready.pop() != more {
		t.Error("the waiting message did not go on")
	}
	p.resize(0)
	for range 2 {
		if p.credits.release() != nil {
			t.Error("a message that nobody knows")
		}
	}
	if c := p.credits.info(); c.Available != 0 || p.credits.retiring.Load() != 0 {
		t.Errorf("in the end %+v, %d too many", c, p.credits.retiring.Load())
	}
}
