//go:build !race

package transport

import "testing"

// Receiving tokens repeatedly allocates nothing.
func TestTokensAllocateNothing(t *testing.T) {
	var c Channel
	c.Tokens()
	allocs := testing.AllocsPerRun(1000, func() {
		wake := c.Tokens()
		c.Signal()
		<-wake
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

// An add, an event with the sender's end point, and another add in its callback allocate nothing, on any
// queue.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	adds := map[string]func(e *BufferEvent) error{
		"TransferMachine.Add": func(e *BufferEvent) error { return e.TM.Add(e.Buffer) },
		"BufferEvent.Add":     func(e *BufferEvent) error { return e.Add(e.Buffer) },
	}
	for name, again := range adds {
		for _, synchronous := range []bool{false, true} {
			s := newSteady(t, synchronous)
			s.again = again
			for q, b := range s.buffers {
				allocs := testing.AllocsPerRun(1000, func() {
					if err := s.tm.Add(b); err != nil {
						t.Fatal(err)
					}
					if synchronous {
						if _, err := s.tm.DeliverAll(); err != nil {
							t.Fatal(err)
						}
					}
					<-s.final
				})
				if allocs != 0 {
					t.Errorf("%s, synchronous %t: %v: %v allocations", name, synchronous, QueueType(q), allocs)
				}
			}
		}
	}
}
